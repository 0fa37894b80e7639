package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v2"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/policy"
)

func rule(change func(*v2.CopyratorRule)) *v2.CopyratorRule {
	r := &v2.CopyratorRule{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "tenant"},
		Spec: v2.Spec{Source: v2.Source{
			Kind: v2.KindConfigMap, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		}},
	}
	change(r)
	return r
}

func read(t *testing.T, settings policy.Settings, change func(*v2.CopyratorRule)) *policy.Rule {
	t.Helper()
	settings.ManagedBy = "copyrator"
	r, err := policy.Parse(rule(change), &settings)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func patterns(t *testing.T, texts ...string) policy.Patterns {
	t.Helper()
	all, err := policy.ParsePatterns(texts)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func namespace(name string, annotations ...string) *metav1.PartialObjectMetadata {
	n := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
	for i := 0; i+1 < len(annotations); i += 2 {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[annotations[i]] = annotations[i+1]
	}
	return n
}

func TestReaches(t *testing.T) {
	t.Parallel()
	trusted := policy.Settings{Namespace: "tenant"}
	excluding := policy.Settings{Namespace: "tenant", Exclude: patterns(t, "infra-*")}
	terminating := namespace("going")
	terminating.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	for name, tc := range map[string]struct {
		settings  policy.Settings
		change    func(*v2.CopyratorRule)
		namespace *metav1.PartialObjectMetadata
		want      bool
		reason    string
	}{
		"all by default":    {settings: trusted, namespace: namespace("any"), want: true},
		"never kube-system": {settings: trusted, namespace: namespace("kube-system"), reason: "it is a floor"},
		"not even by name": {
			settings: trusted, change: targeting("kube-system"), namespace: namespace("kube-system"), reason: "it is a floor",
		},
		"not even by labels": {
			settings: trusted, change: selecting("kube-system"), namespace: namespace("kube-system"), reason: "it is a floor",
		},
		"terminating": {settings: trusted, namespace: terminating},
		"denied":      {settings: trusted, namespace: namespace("any", "copyrator.flant.com/deny", "true")},
		"denied with TRUE": {
			settings: trusted, namespace: namespace("any", "copyrator.flant.com/deny", "TRUE"), reason: "unknown values deny",
		},
		"denied with False": {
			settings: trusted, namespace: namespace("any", "copyrator.flant.com/deny", "False"), reason: "unknown values deny",
		},
		"not denied with false": {
			settings: trusted, namespace: namespace("any", "copyrator.flant.com/deny", "false"), want: true,
		},
		"not denied with an empty value": {
			settings: trusted, namespace: namespace("any", "copyrator.flant.com/deny", ""), want: true,
		},
		"named":     {settings: trusted, change: targeting("team-?", "x"), namespace: namespace("team-a"), want: true},
		"not named": {settings: trusted, change: targeting("team-?"), namespace: namespace("team-ab")},
		"exclusion wins": {
			settings: trusted,
			change: func(r *v2.CopyratorRule) {
				r.Spec.Targets.Namespaces = []string{"*"}
				r.Spec.Targets.ExcludeNamespaces = []string{"t*"}
			},
			namespace: namespace("team"),
		},
		"the operator's exclusion": {settings: excluding, namespace: namespace("infra-a")},
		"the operator's exclusion is a floor": {
			settings: excluding, change: targeting("infra-a"), namespace: namespace("infra-a"), reason: "no rule passes it",
		},
		"selected":                  {settings: trusted, change: selecting("team"), namespace: namespace("team"), want: true},
		"not selected":              {settings: trusted, change: selecting("team"), namespace: namespace("other")},
		"without consent":           {namespace: namespace("other"), reason: "consent is required by default"},
		"with consent":              {namespace: namespace("other", "copyrator.flant.com/accept-from", "a, ten*"), want: true},
		"its own needs no consent":  {namespace: namespace("tenant"), want: true},
		"consent to no pattern":     {namespace: namespace("other", "copyrator.flant.com/accept-from", "[")},
		"consent to a long pattern": {namespace: namespace("other", "copyrator.flant.com/accept-from", strings.Repeat("*", 400))},
		"consent is waived":         {settings: policy.Settings{WaiveConsent: true}, namespace: namespace("other"), want: true},
		"the operator's namespace": {
			settings:  policy.Settings{Namespace: "operators", WaiveConsent: true},
			namespace: namespace("operators", "copyrator.flant.com/accept-from", "*"),
			reason:    "rules there are trusted, and what they copy is, too",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.change == nil {
				tc.change = func(*v2.CopyratorRule) {}
			}
			if got := read(t, tc.settings, tc.change).Reaches(tc.namespace); got != tc.want {
				t.Errorf("got %v, want %v: %s", got, tc.want, tc.reason)
			}
		})
	}
}

func targeting(names ...string) func(*v2.CopyratorRule) {
	return func(r *v2.CopyratorRule) { r.Spec.Targets.Namespaces = names }
}

func selecting(name string) func(*v2.CopyratorRule) {
	return func(r *v2.CopyratorRule) {
		r.Spec.Targets.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": name}}
	}
}

func TestMayRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		operators, source, allows string
		want                      bool
	}{
		"its own":                     {"operators", "tenant", "", true},
		"another":                     {"operators", "other", "", false},
		"another that allows it":      {"operators", "other", "a,tenant", true},
		"... by a pattern":            {"operators", "other", "ten*", true},
		"another that allows others":  {"operators", "other", "tenants, a", false},
		"any, as one of the operator": {"tenant", "other", "", true},
	} {
		r := read(t, policy.Settings{Namespace: tc.operators}, func(*v2.CopyratorRule) {})
		if got := r.MayRead(tc.source, map[string]string{"copyrator.flant.com/allow-from": tc.allows}); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// A copy is never a source, with any selector.
func TestSelectorExcludesCopies(t *testing.T) {
	t.Parallel()
	for _, s := range []metav1.LabelSelector{
		{MatchLabels: map[string]string{"a": "b"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpExists}}},
		{MatchLabels: map[string]string{"app.kubernetes.io/managed-by": "copyrator"}},
	} {
		r := read(t, policy.Settings{}, func(r *v2.CopyratorRule) { r.Spec.Source.Selector = s })
		if r.Selector.Matches(labels.Set{"a": "b", "app.kubernetes.io/managed-by": "copyrator"}) {
			t.Errorf("%v selects a copy", s)
		}
	}
}

func source(namespace, name string, age int64, uid string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(uid), CreationTimestamp: metav1.Unix(age, 0),
	}}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	namespaces := []*metav1.PartialObjectMetadata{namespace("a"), namespace("b"), namespace("c")}
	trusted := policy.Settings{Namespace: "tenant"}
	later := func(r *v2.CopyratorRule) { r.CreationTimestamp = metav1.Unix(9, 0) }
	earlier := policy.RuleSources{Rule: read(t, trusted, func(r *v2.CopyratorRule) {
		r.Name = "first"
		r.Spec.Targets.Namespaces = []string{"c"}
	})}
	for name, tc := range map[string]struct {
		sources, earlier, refusals []*metav1.PartialObjectMetadata
		want                       []string // "source -> namespace", and "source: preferred source or rule"
	}{
		"one": {
			sources: []*metav1.PartialObjectMetadata{source("a", "x", 1, "1")},
			want:    []string{"a/x -> b", "a/x -> c"},
		},
		"the older of one name, and none to where the other is": {
			sources: []*metav1.PartialObjectMetadata{source("a", "x", 2, "1"), source("b", "x", 1, "2")},
			want:    []string{"b/x -> c", "a/x: source b"},
		},
		"of one age the lower UID": {
			sources: []*metav1.PartialObjectMetadata{source("a", "x", 1, "2"), source("b", "x", 1, "1")},
			want:    []string{"b/x -> c", "a/x: source b"},
		},
		"the older source first": {
			sources: []*metav1.PartialObjectMetadata{source("c", "x", 2, "2"), source("c", "y", 1, "1")},
			want:    []string{"c/y -> a", "c/y -> b", "c/x -> a", "c/x -> b"},
		},
		"an earlier rule": {
			sources: []*metav1.PartialObjectMetadata{source("a", "x", 1, "1")},
			earlier: []*metav1.PartialObjectMetadata{source("elsewhere", "x", 5, "5")},
			want:    []string{"a/x -> b", "a/x: rule tenant/first in [c]"},
		},
		"an earlier rule that does not copy to where its source is": {
			sources: []*metav1.PartialObjectMetadata{source("a", "x", 1, "1")},
			earlier: []*metav1.PartialObjectMetadata{source("c", "x", 5, "5")},
			want:    []string{"a/x -> b", "a/x -> c"},
		},
		"refused": {
			sources:  []*metav1.PartialObjectMetadata{source("a", "x", 1, "1"), source("a", "y", 2, "2")},
			refusals: []*metav1.PartialObjectMetadata{refusing("b", "copyrator.flant.com/refuse", "z, y*"), refusing("c")},
			want:     []string{"a/x -> b", "a/x refused by c", "a/y refused by b", "a/y refused by c"},
		},
		"refused by a copy": {
			sources:  []*metav1.PartialObjectMetadata{source("a", "x", 1, "1")},
			refusals: []*metav1.PartialObjectMetadata{refusing("b", "copyrator.flant.com/source", "a/r")},
			want:     []string{"a/x -> b", "a/x -> c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := earlier
			before.Sources = tc.earlier
			p := policy.RuleSources{Rule: read(t, trusted, later), Sources: tc.sources}.
				Place(policy.NewNamespaces(namespaces, tc.refusals), []policy.RuleSources{before})
			var got []string
			for _, c := range p.Copies {
				got = append(got, fmt.Sprintf("%s/%s -> %s", c.Source.Namespace, c.Source.Name, c.Namespace))
			}
			for _, c := range p.Refused {
				got = append(got, fmt.Sprintf("%s/%s refused by %s", c.Source.Namespace, c.Source.Name, c.Namespace))
			}
			for _, s := range p.Shadowed {
				by := fmt.Sprintf("rule %s in %v", s.Rule, s.Namespaces)
				if s.Winner != nil {
					by = "source " + s.Winner.Namespace
				}
				got = append(got, fmt.Sprintf("%s/%s: %s", s.Source.Namespace, s.Source.Name, by))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("copies (-want +got):\n%s", diff)
			}
		})
	}
}

func refusing(in string, annotations ...string) *metav1.PartialObjectMetadata {
	o := namespace("r", annotations...)
	o.Namespace = in
	o.Labels = map[string]string{"copyrator.flant.com/refuse": ""}
	return o
}

// Precedence is strict: no two rules take places from each other, so places do not alternate. Between rules outside of the
// operator's namespace age decides nothing.
func TestRulePrecedence(t *testing.T) {
	t.Parallel()
	made := func(namespace string, at int64) *policy.Rule {
		return read(t, policy.Settings{Namespace: "operators"}, func(r *v2.CopyratorRule) {
			r.Namespace = namespace
			r.CreationTimestamp = metav1.Unix(at, 0)
		})
	}
	for name, tc := range map[string]struct {
		rule, other       *policy.Rule
		in                string
		before, takesOver bool
		reason            string
	}{
		"older trusted":  {made("operators", 1), made("operators", 2), "c", true, false, "between trusted rules age decides"},
		"trusted":        {made("operators", 2), made("b", 1), "c", true, true, "tenants do not displace the operator's rules"},
		"trusted in b":   {made("operators", 2), made("b", 1), "b", true, true, "not even in their own namespace"},
		"older":          {made("a", 1), made("b", 2), "c", false, false, "the place belongs to its holder"},
		"at home":        {made("a", 2), made("b", 1), "a", false, true, "a namespace's own rules come before those of others"},
		"both at home":   {made("a", 1), made("a", 2), "a", false, false, "the place belongs to its holder"},
		"younger tenant": {made("b", 2), made("operators", 1), "b", false, false, "the operator's rules come first"},
	} {
		holder := tc.other.Namespace + "/r"
		if got := tc.rule.Before(tc.other); got != tc.before {
			t.Errorf("%s: Before returns %v: %s", name, got, tc.reason)
		}
		if got := tc.rule.TakesOver(holder, tc.in); got != tc.takesOver {
			t.Errorf("%s: TakesOver returns %v: %s", name, got, tc.reason)
		}
		if tc.rule.Before(tc.other) && tc.other.Before(tc.rule) ||
			tc.rule.TakesOver(holder, tc.in) && tc.other.TakesOver(tc.rule.Namespace+"/r", tc.in) {
			t.Errorf("%s: each has precedence over the other", name)
		}
	}
}

func TestIsCopyByAnyMark(t *testing.T) {
	t.Parallel()
	rules := read(t, policy.Settings{}, func(*v2.CopyratorRule) {})
	for name, change := range map[string]func(*metav1.PartialObjectMetadata){
		"label":      func(o *metav1.PartialObjectMetadata) { o.Labels["homeostat.dev/owner-uid"] = "1" },
		"annotation": func(o *metav1.PartialObjectMetadata) { o.Annotations = map[string]string{"homeostat.dev/owner": "a/b"} },
		"source": func(o *metav1.PartialObjectMetadata) {
			o.Annotations = map[string]string{"copyrator.flant.com/source": "a/b"}
		},
		"controller": func(o *metav1.PartialObjectMetadata) {
			o.OwnerReferences = []metav1.OwnerReference{{Kind: "CopyratorRule", Controller: new(true)}}
		},
	} {
		o := source("tenant", "x", 1, "1")
		o.Labels = map[string]string{"a": "b"}
		if policy.IsCopy(o) || !rules.Selects(o) {
			t.Errorf("%s: without it, it is no source", name)
		}
		change(o)
		if !policy.IsCopy(o) || rules.Selects(o) {
			t.Errorf("%s: with it, it is a source", name)
		}
	}
}
