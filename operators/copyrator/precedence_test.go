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

// Of two rules for one place the older one has it, independently of their order in time, and the other one reports it.
func TestTwoRules(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	source, target := c.namespace("source"), c.namespace("target")
	c.Apply(configMap(source, "x", "older"))
	c.Apply(configMap(c.Namespace, "x", "younger"))
	older := c.rule("older", func(r *v1.CopyratorRule) {
		r.SourceNamespace = v1.Names{List: []string{source}}
		r.TargetNamespaces = []string{target}
		r.Selector.Labels["not"] = "yet"
	})
	c.Apply(older)
	c.waitForLaterSecond(older)
	younger := c.rule("younger", func(r *v1.CopyratorRule) { r.TargetNamespaces = []string{target} })
	c.Apply(younger)
	c.Eventually(younger, testkit.Ready(), synced(1))
	c.Eventually(configMapRef(target, "x"), hasValue("younger"))
	c.Update(older, func() { delete(older.Selector.Labels, "not") })
	c.Eventually(configMapRef(target, "x"), hasValue("older"))
	c.Eventually(older, testkit.Ready(), synced(1))
	c.Eventually(younger, conflicts(1), testkit.Match("none", func(r *v1.CopyratorRule) bool { return r.Status.Desired == 0 }),
		testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Conflict"), // F12
		testkit.Match("the reason", func(r *v1.CopyratorRule) bool {
			return onlyFailure(r, c.Namespace, "x", "copies an object of the same name to "+target+" and comes first")
		}))
	c.expectNoWritesAfterRestart()
	c.Delete(older)
	c.Eventually(configMapRef(target, "x"), hasValue("younger"))
	c.Eventually(younger, testkit.Ready(), synced(1), conflicts(0))
}

// S8: between rules outside of the operator's namespace a place belongs to the rule whose copy it has, independently of the
// age of the rules, of the order of observation and of a restart.
func TestPlaceBelongsToItsHolder(t *testing.T) {
	t.Parallel()
	for name, youngerFirst := range map[string]bool{"held by the younger": true, "held by the older": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			target := c.namespace("target", accepting("*"))
			var rules []*v1.CopyratorRule             // the older one first
			for _, name := range []string{"z", "a"} { // events come in the order of names or of creation
				from := c.namespace(name)
				rules = append(rules, c.rule(name, func(r *v1.CopyratorRule) {
					r.Namespace = from
					r.TargetNamespaces = []string{target}
				}))
				c.Apply(rules[len(rules)-1])
				c.waitForLaterSecond(rules[len(rules)-1])
			}
			holder, other := rules[0], rules[1]
			if youngerFirst {
				holder, other = other, holder
			}
			c.Apply(configMap(holder.Namespace, "x", "the holder's"))
			c.Eventually(holder, testkit.Ready(), synced(1))
			c.op.Stop()
			c.Apply(configMap(other.Namespace, "x", "the other's"))
			c.start()
			c.Eventually(other, conflicts(1), testkit.Reason(conditions.Ready, metav1.ConditionFalse, "NotAccepted"))
			c.Eventually(holder, testkit.Ready(), synced(1), conflicts(0))
			c.Eventually(configMapRef(target, "x"), hasValue("the holder's"))
			c.expectNoWritesAfterRestart()
			c.Delete(configMapRef(holder.Namespace, "x"))
			c.Eventually(configMapRef(target, "x"), hasValue("the other's"))
			c.Eventually(other, testkit.Ready(), synced(1), conflicts(0))
		})
	}
}

// A rejected rule reserves no place, even if it is older.
func TestRejectedRuleReservesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	mine, target := c.namespace("mine"), c.namespace("target", accepting("*"))
	c.Apply(configMap(mine, "x", "mine"))
	refused := c.rule("refused", func(r *v1.CopyratorRule) {
		r.Namespace = mine
		r.ConflictPolicy = v1.ConflictOverwrite
	})
	c.Apply(refused)
	c.Eventually(refused, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "NotAuthorized"))
	c.waitForLaterSecond(refused)
	rule := c.rule("rule", func(r *v1.CopyratorRule) {
		r.Namespace = mine
		r.TargetNamespaces = []string{target}
	})
	c.Apply(rule)
	c.Eventually(rule, testkit.Ready(), synced(1), conflicts(0))
	c.Eventually(configMapRef(target, "x"), hasValue("mine"))
}

// A suspended or dry-run rule keeps its copies, and reserves no places for others.
func TestSuspendedRuleReservesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b, target := c.namespace("a"), c.namespace("b"), c.namespace("target")
	c.Apply(configMap(a, "x", "a's"))
	c.Apply(configMap(b, "x", "b's"))
	older := c.rule("older", func(r *v1.CopyratorRule) {
		r.SourceNamespace.List = []string{a}
		r.TargetNamespaces = []string{target}
		r.Suspend = true
	})
	c.Apply(older)
	c.waitForLaterSecond(older)
	younger := c.rule("younger", func(r *v1.CopyratorRule) {
		r.SourceNamespace.List = []string{b}
		r.TargetNamespaces = []string{target}
	})
	c.Apply(younger)
	c.Eventually(younger, testkit.Ready(), synced(1), conflicts(0))
	c.Eventually(configMapRef(target, "x"), hasValue("b's"))
	c.Update(older, func() { older.Suspend = false })
	c.Eventually(configMapRef(target, "x"), hasValue("a's"))
	c.Eventually(younger, conflicts(1))
	c.Update(older, func() { older.Annotations = map[string]string{"homeostat.dev/paused": "true"} })
	c.Eventually(younger, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Conflict"))
	c.Eventually(configMapRef(target, "x"), hasValue("a's"))
	c.Delete(configMapRef(target, "x"))
	c.Eventually(configMapRef(target, "x"), hasValue("b's"))
}

// Two rules that overwrite existing objects leave each other's sources alone. Otherwise each would adopt the other's
// sources as copies, and delete them when its own sources are gone.
func TestSourcesAreNeverOverwritten(t *testing.T) {
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
					r.SourceNamespace.List = []string{from}
					r.TargetNamespaces = []string{a, b}
					r.ConflictPolicy = policy
				}))
				c.Apply(rules[len(rules)-1])
			}
			c.start()
			for i, r := range rules {
				c.Eventually(r, conflicts(1), testkit.Match("reported", func(r *v1.CopyratorRule) bool {
					return onlyFailure(r, []string{b, a}[i], "x", "delete it, or use another name")
				}))
			}
			c.waitIdle()
			c.Eventually(configMapRef(a, "x"), hasValue(says[a]))
			c.Eventually(configMapRef(b, "x"), hasValue(says[b]))
			c.Delete(rules[1])
			c.waitGone(rules[1])
			c.Eventually(rules[0], testkit.Ready(), synced(1), conflicts(0))
			c.Eventually(configMapRef(b, "x"), hasValue(says[a]))
		})
	}
}

// A copy that loses its labels in a source namespace does not become a source, not even while the operator is stopped.
func TestCopyWithoutLabelsIsNoSource(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.namespace("a"), c.namespace("b")
	c.Apply(configMap(a, "x", "a's"))
	rule := c.rule("r", func(r *v1.CopyratorRule) {
		r.SourceNamespace.List = []string{a, b}
		r.TargetNamespaces = []string{a, b}
	})
	c.Apply(rule)
	c.Eventually(rule, testkit.Ready(), synced(1))
	for _, labels := range [][]string{
		{"app.kubernetes.io/managed-by"}, {"homeostat.dev/owner-uid"}, {"app.kubernetes.io/managed-by", "homeostat.dev/owner-uid"},
	} {
		c.op.Stop()
		copied := configMapRef(b, "x")
		c.Update(copied, func() {
			for _, label := range labels {
				delete(copied.Labels, label)
			}
			copied.Data["key"] = "edited"
		})
		c.start()
		c.Eventually(copied, hasValue("a's"), testkit.Match("labels", func(o *corev1.ConfigMap) bool {
			return o.Labels["app.kubernetes.io/managed-by"] == "copyrator" && o.Labels["homeostat.dev/owner-uid"] == string(rule.UID)
		}))
		c.Eventually(rule, testkit.Ready(), synced(1), conflicts(0))
	}
}

// waitForLaterSecond waits until a new object has a later creation time than o; creation times are whole seconds.
func (c *cluster) waitForLaterSecond(o client.Object) {
	c.t.Helper()
	c.Get(o)
	c.Wait("a later second", func(context.Context) error {
		if created := o.GetCreationTimestamp(); time.Since(created.Time) < 1100*time.Millisecond {
			return fmt.Errorf("created at %v", created)
		}
		return nil
	})
}
