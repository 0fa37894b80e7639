package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/policy"
)

func rule(change func(*v1.CopyratorRule)) *v1.CopyratorRule {
	r := &v1.CopyratorRule{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "tenant"},
		Rule:       v1.Rule{RuleType: "configmap", Selector: v1.Selector{Labels: map[string]string{"a": "b"}}},
	}
	change(r)
	return r
}

func read(t *testing.T, settings policy.Settings, change func(*v1.CopyratorRule)) *policy.Rule {
	t.Helper()
	settings.ManagedBy = "copyrator"
	r, err := policy.Parse(rule(change), settings)
	if err != nil {
		t.Fatal(err)
	}
	return r
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
	terminating := namespace("going")
	terminating.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	for name, tc := range map[string]struct {
		settings  policy.Settings
		change    func(*v1.CopyratorRule)
		namespace *metav1.PartialObjectMetadata
		want      bool
	}{
		"all by default":  {namespace: namespace("any"), want: true},
		"kube-system too": {namespace: namespace("kube-system"), want: true},
		"terminating":     {namespace: terminating},
		"denied":          {namespace: namespace("any", "copyrator.flant.com/deny", "true")},
		"named": {
			change:    func(r *v1.CopyratorRule) { r.TargetNamespaces = []string{"team-?", "x"} },
			namespace: namespace("team-a"), want: true,
		},
		"not named": {
			change: func(r *v1.CopyratorRule) { r.TargetNamespaces = []string{"team-?"} }, namespace: namespace("team-ab"),
		},
		"exclusion wins": {
			change: func(r *v1.CopyratorRule) {
				r.TargetNamespaces = []string{"*"}
				r.ExcludeNamespaces = []string{"t*"}
			},
			namespace: namespace("team"),
		},
		"the operator's exclusion": {settings: policy.Settings{Exclude: []string{"kube-*"}}, namespace: namespace("kube-system")},
		"the operator's exclusion is for rules without targets": {
			settings:  policy.Settings{Exclude: []string{"kube-*"}},
			change:    func(r *v1.CopyratorRule) { r.TargetNamespaces = []string{"kube-system"} },
			namespace: namespace("kube-system"), want: true,
		},
		"selected":        {change: selecting("team"), namespace: namespace("team"), want: true},
		"not selected":    {change: selecting("team"), namespace: namespace("other")},
		"without consent": {settings: policy.Settings{Consent: true}, namespace: namespace("other")},
		"with consent": {
			settings:  policy.Settings{Consent: true},
			namespace: namespace("other", "copyrator.flant.com/accept-from", "a, ten*"), want: true,
		},
		"its own needs no consent": {settings: policy.Settings{Consent: true}, namespace: namespace("tenant"), want: true},
		"the operator's needs none": {
			settings: policy.Settings{Consent: true, Namespace: "tenant"}, namespace: namespace("a"), want: true,
		},
		"consent to no pattern": {
			settings: policy.Settings{Consent: true}, namespace: namespace("other", "copyrator.flant.com/accept-from", "["),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.change == nil {
				tc.change = func(*v1.CopyratorRule) {}
			}
			if got := read(t, tc.settings, tc.change).Reaches(tc.namespace); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func selecting(name string) func(*v1.CopyratorRule) {
	return func(r *v1.CopyratorRule) {
		r.TargetNamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": name}}
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
		r := read(t, policy.Settings{Namespace: tc.operators}, func(*v1.CopyratorRule) {})
		if got := r.MayRead(tc.source, map[string]string{"copyrator.flant.com/allow-from": tc.allows}); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// A copy is never a source, with any selector.
func TestSelectorExcludesCopies(t *testing.T) {
	t.Parallel()
	for _, s := range []v1.Selector{
		{Labels: map[string]string{"a": "b"}}, {Text: "a"}, {Text: "app.kubernetes.io/managed-by=copyrator"},
	} {
		r := read(t, policy.Settings{}, func(r *v1.CopyratorRule) { r.Selector = s })
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

func TestCopies(t *testing.T) {
	t.Parallel()
	namespaces := []*metav1.PartialObjectMetadata{namespace("a"), namespace("b"), namespace("c")}
	later := func(r *v1.CopyratorRule) { r.CreationTimestamp = metav1.Unix(9, 0) }
	earlier := policy.RuleSources{
		Rule: read(t, policy.Settings{}, func(r *v1.CopyratorRule) {
			r.Name = "first"
			r.TargetNamespaces = []string{"c"}
		}),
	}
	for name, tc := range map[string]struct {
		sources, earlier []*metav1.PartialObjectMetadata
		want             []string // "source -> namespace", and "source: preferred source or rule"
	}{
		"one": {
			sources: []*metav1.PartialObjectMetadata{source("a", "x", 1, "1")},
			want:    []string{"a/x -> b", "a/x -> c"},
		},
		"the older of one name, and none to where the other is": {
			sources: []*metav1.PartialObjectMetadata{source("a", "x", 2, "1"), source("b", "x", 1, "2")},
			want:    []string{"b/x -> c", "a/x: source b/x"},
		},
		"of one age the lower UID": {
			sources: []*metav1.PartialObjectMetadata{source("a", "x", 1, "2"), source("b", "x", 1, "1")},
			want:    []string{"b/x -> c", "a/x: source b/x"},
		},
		"an earlier rule": {
			sources: []*metav1.PartialObjectMetadata{source("a", "x", 1, "1")},
			earlier: []*metav1.PartialObjectMetadata{source("elsewhere", "x", 5, "5")},
			want:    []string{"a/x -> b", "a/x: rule tenant/first"},
		},
		"an earlier rule that does not copy to where its source is": {
			sources: []*metav1.PartialObjectMetadata{source("a", "x", 1, "1")},
			earlier: []*metav1.PartialObjectMetadata{source("c", "x", 5, "5")},
			want:    []string{"a/x -> b", "a/x -> c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := earlier
			before.Sources = tc.earlier
			copies, shadowed := policy.RuleSources{Rule: read(t, policy.Settings{}, later), Sources: tc.sources}.
				Copies(namespaces, []policy.RuleSources{before})
			var got []string
			for _, c := range copies {
				got = append(got, fmt.Sprintf("%s/%s -> %s", c.Source.Namespace, c.Source.Name, c.Namespace))
			}
			for _, s := range shadowed {
				got = append(got, fmt.Sprintf("%s/%s: %s", s.Source.Namespace, s.Source.Name, s.By))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("copies (-want +got):\n%s", diff)
			}
		})
	}
}

// Precedence does not depend on age alone: no tenant displaces a rule of the operator's namespace, nor a rule in its own
// namespace.
func TestRulePrecedence(t *testing.T) {
	t.Parallel()
	made := func(namespace string, at int64) *policy.Rule {
		return read(t, policy.Settings{Namespace: "operators"}, func(r *v1.CopyratorRule) {
			r.Namespace = namespace
			r.CreationTimestamp = metav1.Unix(at, 0)
		})
	}
	for name, tc := range map[string]struct {
		first, second *policy.Rule
		in            string
		reason        string
	}{
		"older":              {made("a", 1), made("b", 2), "c", "between equals age decides"},
		"trusted":            {made("operators", 2), made("b", 1), "c", "tenants do not displace the operator's rules"},
		"trusted, elsewhere": {made("operators", 2), made("b", 1), "b", "not even in their own namespace"},
		"at home":            {made("a", 2), made("b", 1), "a", "tenants do not displace the rules of another namespace"},
		"older and at home":  {made("a", 1), made("a", 2), "a", "between equals age decides"},
		"both trusted":       {made("operators", 1), made("operators", 2), "operators", "between equals age decides"},
	} {
		if !tc.first.Before(tc.second, tc.in) || tc.second.Before(tc.first, tc.in) {
			t.Errorf("%s: %s", name, tc.reason)
		}
		if !tc.first.MayComeBefore(tc.second) {
			t.Errorf("%s: MayComeBefore reports false", name)
		}
	}
	if made("b", 1).MayComeBefore(made("operators", 2)) {
		t.Error("a tenant's rule may come before one of the operator's namespace")
	}
}

func TestIsCopyByAnyMark(t *testing.T) {
	t.Parallel()
	rules := read(t, policy.Settings{}, func(*v1.CopyratorRule) {})
	for name, change := range map[string]func(*metav1.PartialObjectMetadata){
		"label":      func(o *metav1.PartialObjectMetadata) { o.Labels["homeostat.dev/owner-uid"] = "1" },
		"annotation": func(o *metav1.PartialObjectMetadata) { o.Annotations = map[string]string{"homeostat.dev/owner": "a/b"} },
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
