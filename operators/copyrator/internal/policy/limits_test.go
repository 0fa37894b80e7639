package policy_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/policy"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	limits := policy.Limits{Copies: 5, Bytes: 100, NamespaceRules: 3, NamespaceCopies: 8, NamespaceBytes: 150}
	var copies []policy.Copy
	for range 10 {
		copies = append(copies, policy.Copy{Source: source("a", "x", 1, "1"), Namespace: "b"})
	}
	for name, tc := range map[string]struct {
		limits policy.Limits
		rules  int
		older  policy.Usage
		size   int64
		want   int
		says   string
	}{
		"no limit":                  {policy.Limits{}, 1000, policy.Usage{Copies: 1 << 40, Bytes: 1 << 40}, 1 << 40, 10, ""},
		"copies":                    {limits, 0, policy.Usage{}, 1, 5, "5 of 10 copies are not made: the limits are 5 copies"},
		"copies of the namespace":   {limits, 1, policy.Usage{Copies: 6}, 1, 2, "8 of 10 copies are not made"},
		"none left":                 {limits, 1, policy.Usage{Copies: 8}, 1, 0, "10 of 10 copies are not made"},
		"more than all":             {limits, 1, policy.Usage{Copies: 80}, 1, 0, "10 of 10 copies are not made"},
		"bytes":                     {limits, 0, policy.Usage{}, 30, 3, "the limits are 100 bytes"},
		"bytes of the namespace":    {limits, 2, policy.Usage{Bytes: 100}, 30, 1, "the limits are 100 bytes"},
		"no bytes left":             {limits, 2, policy.Usage{Bytes: 150}, 30, 0, "10 of 10 copies are not made"},
		"rules":                     {limits, 3, policy.Usage{}, 1, 0, "more than 3 rules"},
		"only the namespace's":      {policy.Limits{NamespaceCopies: 7}, 3, policy.Usage{Copies: 3}, 1, 4, "6 of 10"},
		"only the namespace's, all": {policy.Limits{NamespaceCopies: 7}, 3, policy.Usage{Copies: 7}, 1, 0, "10 of 10"},
	} {
		size := func(*metav1.PartialObjectMetadata) int64 { return tc.size }
		got, says := tc.limits.Allow(tc.rules, tc.older).Limit(copies, size)
		if len(got) != tc.want || !strings.Contains(says, tc.says) || (says == "") != (tc.says == "") {
			t.Errorf("%s: %d copies and %q, want %d and %q", name, len(got), says, tc.want, tc.says)
		}
	}
	if got := limits.Cap(policy.Usage{Copies: 9, Bytes: 1000}); got != (policy.Usage{Copies: 5, Bytes: 100}) {
		t.Errorf("the usage is capped at %+v", got)
	}
}

// The oldest sources are within the limit, so that a new one never displaces another.
func TestLimitSources(t *testing.T) {
	t.Parallel()
	all := []*metav1.PartialObjectMetadata{source("a", "new", 9, "1"), source("a", "old", 1, "2"), source("a", "older", 0, "3")}
	got := policy.Limits{Sources: 2}.LimitSources(all)
	if len(got) != 2 || got[0].Name != "older" || got[1].Name != "old" {
		t.Errorf("the sources are %v", got)
	}
	if got := (policy.Limits{}).LimitSources(all); len(got) != 3 {
		t.Errorf("without a limit there are %d sources", len(got))
	}
}
