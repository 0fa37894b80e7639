package copyrator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/copyrator"
	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	v2 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v2"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/conversion/migration"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/upgrade"
)

// ruleV2 returns a rule like that of [cluster.rule], whose selector has an expression.
func (c *cluster) ruleV2(name string) *v2.CopyratorRule {
	return &v2.CopyratorRule{
		ObjectMeta: metav1.ObjectMeta{Name: c.Namespace + "-" + name, Namespace: c.Namespace},
		Spec: v2.Spec{
			Source: v2.Source{
				Kind: v2.KindConfigMap, Namespaces: []string{c.Namespace + "-z", c.Namespace + "-a"},
				Selector: metav1.LabelSelector{
					MatchLabels: map[string]string{"copyrator": "true"},
					MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: "stage", Operator: metav1.LabelSelectorOpIn, Values: []string{"test", "live"}},
						{Key: "legacy", Operator: metav1.LabelSelectorOpDoesNotExist},
					},
				},
			},
			Targets: v2.Targets{Namespaces: []string{c.Namespace}},
		},
	}
}

// Clients of both versions change a rule in turn. The operator reconciles what the client of v2 has written, and both read
// the status. Nothing is lost that v1 cannot express.
func TestClientsOfTwoVersions(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.namespace("z")
	source := c.namespace("a")
	for name, stage := range map[string]string{"x": "live", "y": "other"} {
		o := configMap(source, name, "one")
		o.Labels["stage"] = stage
		c.Apply(o)
	}
	rule := c.ruleV2("r")
	c.Apply(rule)
	old := &v1.CopyratorRule{ObjectMeta: *metaOf(rule)}
	c.Eventually(old, testkit.Ready(), synced(1))
	c.Eventually(configMapRef(c.Namespace, "x"), hasValue("one"))
	c.waitGone(configMapRef(c.Namespace, "y"))
	if want := "copyrator=true,!legacy,stage in (live,test)"; old.Selector.Text != want {
		t.Errorf("the selector in v1 is %q, want %q", old.Selector.Text, want)
	}
	before := rule.Spec.DeepCopy()
	c.Update(old, func() { old.DataKeys.Exclude = []string{"key"} })
	c.Eventually(configMapRef(c.Namespace, "x"), hasData(nil))
	c.Eventually(old, testkit.Ready(), synced(1))
	c.Get(rule)
	before.DataKeys.Exclude = []string{"key"}
	if diff := cmp.Diff(*before, rule.Spec); diff != "" {
		t.Errorf("a client of v1 changed more than a field (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(old.Status, rule.Status); diff != "" {
		t.Errorf("the status of v2 differs (-want +got):\n%s", diff)
	}
	c.Update(rule, func() { rule.Spec.Source.Selector.MatchExpressions = nil })
	c.Eventually(old, testkit.Ready(), synced(2))
	if diff := cmp.Diff(v1.Selector{Labels: map[string]string{"copyrator": "true"}}, old.Selector); diff != "" {
		t.Errorf("the selector in v1 (-want +got):\n%s", diff)
	}
	c.Update(rule, func() {
		rule.Spec.Source.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "stage", Operator: "Like"}}
	})
	c.Eventually(old, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "InvalidRule"))
	if message := conditions.Get(old, conditions.Stalled).Message; !strings.Contains(message, `"Like" is no operator`) {
		t.Errorf("the message is %q", message)
	}
	c.Delete(old)
	c.waitGone(rule)
}

func metaOf(rule *v2.CopyratorRule) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Name: rule.Name, Namespace: rule.Namespace}
}

// Rules of both versions keep all fields when v2 becomes the storage version, and when v1 becomes it again.
func TestStorageOfTwoVersions(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	start := func() *testkit.Instance {
		return k.Run(copyrator.New(copyrator.Options{Namespace: k.Namespace}), testkit.ClusterWide())
	}
	migrator := &migration.Migrator{CRDs: []string{"copyrators.flant.com"}, Delay: time.Second, PerSecond: 1000}
	k.Start(migrator.SetupWithManager, testkit.WithConfig(k.Config), testkit.ClusterWide())
	err := upgrade.Check(k, upgrade.Kind{
		CRD:     "copyrators.flant.com",
		Former:  upgrade.Release{Version: "v1", Sample: "config/samples/full.yaml", Start: start},
		Present: upgrade.Release{Version: "v2", Sample: "config/samples/v2.yaml", Start: start},
	})
	if err != nil {
		t.Error(err)
	}
}

// The schema of v2 rejects what no conversion to v1 needs.
func TestInvalidObjectOfV2IsRejected(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	c := &cluster{K: k, t: t}
	for want, change := range map[string]func(*v2.Spec){
		`spec.source.kind: Unsupported value: "configmap"`:  func(s *v2.Spec) { s.Source.Kind = "configmap" },
		"spec.targets.namespaces[0]: Invalid value":         func(s *v2.Spec) { s.Targets.Namespaces = []string{"a b"} },
		"spec.source.namespaces[1]: Duplicate value: \"a\"": func(s *v2.Spec) { s.Source.Namespaces = []string{"a", "a"} },
		`spec.orphanPolicy: Unsupported value: "Leave"`:     func(s *v2.Spec) { s.OrphanPolicy = "Leave" },
	} {
		rule := c.ruleV2("bad")
		change(&rule.Spec)
		if got := k.Refused(rule); !strings.Contains(got, want) {
			t.Errorf("the message is\n%s\nwant\n%s", got, want)
		}
	}
	rule := c.ruleV2("r")
	k.Apply(rule)
	got := k.RefusedUpdate(rule, func() { rule.Spec.Source.Kind = v2.KindSecret })
	if want := "kind cannot be changed: delete this rule and create another one"; !strings.Contains(got, want) {
		t.Errorf("the message is\n%s\nwant\n%s", got, want)
	}
}

// A kept value that a client of v1 changes counts, although the generation stays the same.
func TestChangedAnnotationOfTheConversion(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	source := c.namespace("a")
	o := configMap(source, "x", "one")
	o.Labels["stage"] = "live"
	c.Apply(o)
	rule := c.ruleV2("r")
	rule.Spec.Source.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{
		{Key: "stage", Operator: metav1.LabelSelectorOpIn, Values: []string{"live"}}, {Key: "a b", Operator: "Like"},
	}
	c.Apply(rule)
	old := &v1.CopyratorRule{ObjectMeta: *metaOf(rule)}
	c.Eventually(old, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "InvalidRule"))
	generation := old.Generation
	c.Update(old, func() { delete(old.Annotations, "homeostat.dev/conversion") })
	c.Eventually(old, testkit.Match("the message is that of the text in v1", func(r *v1.CopyratorRule) bool {
		stalled := conditions.Get(r, conditions.Stalled)
		return stalled != nil && strings.Contains(stalled.Message, "unable to parse")
	}))
	if old.Generation != generation {
		t.Error("the generation has changed")
	}
}
