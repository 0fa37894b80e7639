package copyrator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// Of two rules that want one place the older one has it, whichever was there first, and the other one says so.
func TestTwoRules(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	source, target := c.namespace("source"), c.namespace("target")
	c.Apply(configMap(source, "x", "older"))
	c.Apply(configMap(c.Namespace, "x", "younger"))
	older := c.rule("older", func(r *v1.CopyratorRule) {
		r.SourceNamespace, r.TargetNamespaces = v1.Names{List: []string{source}}, []string{target}
		r.Selector.Labels["not"] = "yet"
	})
	c.Apply(older)
	c.laterThan(older)
	younger := c.rule("younger", func(r *v1.CopyratorRule) { r.TargetNamespaces = []string{target} })
	c.Apply(younger)
	c.Eventually(younger, testkit.Ready(), synced(1))
	c.Eventually(at(target, "x"), value("younger"))
	c.Update(older, func() { delete(older.Selector.Labels, "not") })
	c.Eventually(at(target, "x"), value("older"))
	c.Eventually(older, testkit.Ready(), synced(1))
	c.Eventually(younger, conflicts(1), testkit.Match("none", func(r *v1.CopyratorRule) bool { return r.Status.Desired == 0 }))
	c.restart()
	c.Delete(older)
	c.Eventually(at(target, "x"), value("younger"))
	c.Eventually(younger, testkit.Ready(), synced(1), conflicts(0))
}

// A rule that is refused has no place, however old it is: it would keep others out of it for nothing.
func TestRefusedRuleHasNoPlace(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	mine, target := c.namespace("mine"), c.namespace("target")
	c.Apply(configMap(mine, "x", "mine"))
	refused := c.rule("refused", func(r *v1.CopyratorRule) { r.Namespace, r.ConflictPolicy = mine, v1.ConflictOverwrite })
	c.Apply(refused)
	c.Eventually(refused, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "NotAuthorized"))
	c.laterThan(refused)
	rule := c.rule("rule", func(r *v1.CopyratorRule) { r.Namespace, r.TargetNamespaces = mine, []string{target} })
	c.Apply(rule)
	c.Eventually(rule, testkit.Ready(), synced(1), conflicts(0))
	c.Eventually(at(target, "x"), value("mine"))
}

// A rule that is suspended or only tried keeps what it has copied, and no place free for what it might copy.
func TestRuleThatRestsKeepsNoPlaceFree(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b, target := c.namespace("a"), c.namespace("b"), c.namespace("target")
	c.Apply(configMap(a, "x", "a's"))
	c.Apply(configMap(b, "x", "b's"))
	older := c.rule("older", func(r *v1.CopyratorRule) {
		r.SourceNamespace.List, r.TargetNamespaces, r.Suspend = []string{a}, []string{target}, true
	})
	c.Apply(older)
	c.laterThan(older)
	younger := c.rule("younger", func(r *v1.CopyratorRule) {
		r.SourceNamespace.List, r.TargetNamespaces = []string{b}, []string{target}
	})
	c.Apply(younger)
	c.Eventually(younger, testkit.Ready(), synced(1), conflicts(0))
	c.Eventually(at(target, "x"), value("b's"))
	c.Update(older, func() { older.Suspend = false })
	c.Eventually(at(target, "x"), value("a's"))
	c.Eventually(younger, conflicts(1))
	c.Update(older, func() { older.Annotations = map[string]string{"homeostat.dev/paused": "true"} })
	c.Eventually(younger, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Conflict"))
	c.Eventually(at(target, "x"), value("a's"))
	c.Delete(at(target, "x"))
	c.Eventually(at(target, "x"), value("b's"))
}

// Two rules that write over what is there leave each other's sources alone. If they did not, each would make the other's
// sources its copies, and delete them as such when its own are gone.
func TestRulesWriteOverNoSources(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1.ConflictPolicy{v1.ConflictOverwrite, v1.ConflictAdopt} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			a, b := c.namespace("a"), c.namespace("b")
			c.op.Stop()
			says := map[string]string{a: "a's", b: "b's"}
			if policy == v1.ConflictAdopt {
				says[b] = says[a]
			}
			var rules []*v1.CopyratorRule
			for _, from := range []string{a, b} {
				c.Apply(configMap(from, "x", says[from]))
				rules = append(rules, c.rule("from-"+from, func(r *v1.CopyratorRule) {
					r.SourceNamespace.List, r.TargetNamespaces, r.ConflictPolicy = []string{from}, []string{a, b}, policy
				}))
				c.Apply(rules[len(rules)-1])
			}
			c.start()
			for i, r := range rules {
				c.Eventually(r, conflicts(1), testkit.Match("told", func(r *v1.CopyratorRule) bool {
					return told(r, []string{b, a}[i], "x", "delete it or rename it")
				}))
			}
			c.rest()
			c.Eventually(at(a, "x"), value(says[a]))
			c.Eventually(at(b, "x"), value(says[b]))
			c.Delete(rules[1])
			c.gone(rules[1])
			c.Eventually(rules[0], testkit.Ready(), synced(1), conflicts(0))
			c.Eventually(at(b, "x"), value(says[a]))
		})
	}
}

// A copy that loses its labels in a namespace of sources becomes no source, not even while nobody looks.
func TestCopyWithoutLabelsIsNoSource(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.namespace("a"), c.namespace("b")
	c.Apply(configMap(a, "x", "a's"))
	rule := c.rule("r", func(r *v1.CopyratorRule) {
		r.SourceNamespace.List, r.TargetNamespaces = []string{a, b}, []string{a, b}
	})
	c.Apply(rule)
	c.Eventually(rule, testkit.Ready(), synced(1))
	for _, labels := range [][]string{
		{"app.kubernetes.io/managed-by"}, {"homeostat.dev/owner-uid"}, {"app.kubernetes.io/managed-by", "homeostat.dev/owner-uid"},
	} {
		c.op.Stop()
		copied := at(b, "x")
		c.Update(copied, func() {
			for _, label := range labels {
				delete(copied.Labels, label)
			}
			copied.Data["key"] = "edited"
		})
		c.start()
		c.Eventually(copied, value("a's"), testkit.Match("labels", func(o *corev1.ConfigMap) bool {
			return o.Labels["app.kubernetes.io/managed-by"] == "copyrator" && o.Labels["homeostat.dev/owner-uid"] == string(rule.UID)
		}))
		c.Eventually(rule, testkit.Ready(), synced(1), conflicts(0))
	}
}

// laterThan waits until what is created next is younger, which the API server tells by whole seconds.
func (c *cluster) laterThan(o client.Object) {
	c.t.Helper()
	c.Get(o)
	c.Wait("a later second", func(context.Context) error {
		if created := o.GetCreationTimestamp(); time.Since(created.Time) < 1100*time.Millisecond {
			return fmt.Errorf("created at %v", created)
		}
		return nil
	})
}
