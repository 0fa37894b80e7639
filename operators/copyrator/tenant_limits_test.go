package copyrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/copyrator"
	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// statusAttacks try to learn from the status what is in namespaces that eve may not see.
var statusAttacks = map[string]func(*site, string) error{
	// S24, F12: an object, a rule of the operator's namespace, a refusal and a quota look the same.
	"LearnWhatKeepsACopyOut": func(s *site, attack string) error {
		full, err := s.fullNamespace()
		if err != nil {
			return err
		}
		outcomes := map[string]v1.CopyratorRuleStatus{}
		for cause, keepOut := range map[string]func(name string) error{
			"object": func(name string) error {
				o := configMap(s.friend, name, "theirs")
				o.Annotations = map[string]string{"homeostat.dev/owner": "hidden/owner"}
				return s.as(s.frank, o)
			},
			"rule": func(name string) error {
				o := configMap(s.Namespace, name, "the administrator's")
				o.Labels = map[string]string{"attack": name}
				return s.as(s.Client, o, s.rule("hidden-"+name, func(r *v1.CopyratorRule) {
					r.Selector = v1.Selector{Labels: map[string]string{"attack": name}}
					r.TargetNamespaces = []string{s.friend}
				}))
			},
			"refusal": func(name string) error {
				return s.as(s.frank, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Namespace: s.friend, Name: "no-" + name, Labels: map[string]string{"copyrator.flant.com/refuse": ""},
					Annotations: map[string]string{"copyrator.flant.com/refuse": name},
				}})
			},
			"quota": func(string) error { return nil },
		} {
			name, target := attack+"-"+cause, s.friend
			if cause == "quota" {
				target = full
			}
			r := s.evilRule(name, func(r *v1.CopyratorRule) { r.TargetNamespaces = []string{target} })
			if err := errors.Join(keepOut(name), s.as(s.eve, s.source(name, name), r)); err != nil {
				return err
			}
			err := s.reports(r, func(r *v1.CopyratorRule) error {
				if r.Status.MatchedSources != 1 || r.Status.Conflicts != 1 {
					return fmt.Errorf("the status is %+v", r.Status)
				}
				return nil
			})
			if err != nil {
				return err
			}
			outcomes[cause] = withoutTimes(r.Status, name, target)
		}
		for cause, status := range outcomes {
			if diff := cmp.Diff(outcomes["object"], status); diff != "" {
				return fmt.Errorf("the status differs for an object (-) and a %s (+):\n%s", cause, diff)
			}
			if text := fmt.Sprint(status); strings.Contains(text, "hidden") || status.Failures[0].Reason != "NotAccepted" {
				return fmt.Errorf("the status names what keeps the copy out: %s", text)
			}
		}
		return nil
	},
	"LearnNamesOfNamespaces": func(s *site, attack string) error {
		return s.sameStatus(attack, func(r *v1.CopyratorRule, exists bool) {
			r.TargetNamespaces = []string{s.victim}
			if !exists {
				r.TargetNamespaces = []string{s.victim + "-not"}
			}
		})
	},
	"LearnLabelsOfNamespaces": func(s *site, attack string) error {
		return s.sameStatus(attack, func(r *v1.CopyratorRule, exists bool) {
			r.TargetNamespaces = nil
			r.TargetNamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.victim}}
			if !exists {
				r.TargetNamespaceSelector.MatchLabels["no"] = "label"
			}
		})
	},
	"LearnObjectsBySelector": func(s *site, attack string) error {
		o := configMap(s.victim, attack, "theirs")
		o.Labels = map[string]string{"secret": "label"}
		if err := s.as(s.Client, o); err != nil {
			return err
		}
		return s.sameStatus(attack, func(r *v1.CopyratorRule, exists bool) {
			r.Namespaces = []string{s.victim}
			r.Selector = v1.Selector{Labels: map[string]string{"secret": "label"}}
			if !exists {
				r.Selector.Labels["secret"] = "other"
			}
		})
	},
	"LearnFromDryRun": func(s *site, attack string) error {
		r := s.evilRule(attack, func(r *v1.CopyratorRule) {
			r.TargetNamespaces = []string{"*"}
			r.DryRun = true
		})
		err := s.as(s.eve, s.source(attack, attack), r)
		if err != nil {
			return err
		}
		return s.until("the plan", func(ctx context.Context) error {
			s.Get(r)
			plan := conditions.Get(r, "DryRun")
			switch {
			case plan == nil || !strings.Contains(plan.Message, s.friend):
				return fmt.Errorf("the plan is %+v", plan)
			case strings.Contains(plan.Message, s.victim), strings.Contains(plan.Message, "kube-"):
				return fmt.Errorf("the plan names other namespaces: %s", plan.Message)
			}
			return ctx.Err()
		})
	},
	// S23: a user who may read rules and not Secrets cannot verify a guess of the content.
	"LearnContentFromDigest": func(s *site, attack string) error {
		o := &corev1.Secret{ObjectMeta: s.source(attack, attack).ObjectMeta, StringData: map[string]string{"pin": "1234"}}
		r := s.evilRule(attack, func(r *v1.CopyratorRule) { r.RuleType = "secret" })
		if err := s.as(s.eve, o, r); err != nil {
			return err
		}
		first := ""
		err := s.reports(r, func(r *v1.CopyratorRule) error {
			if first = r.Status.Digest; r.Status.Synced != 1 || first == "" {
				return fmt.Errorf("the status is %+v", r.Status)
			}
			return nil
		})
		if err == nil {
			err = update(s, s.eve, o, func(o *corev1.Secret) { o.Data = map[string][]byte{"pin": []byte("4321")} })
		}
		copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.friend, Name: attack}}
		if err == nil {
			err = s.until("the new content", func(ctx context.Context) error {
				if s.Get(copied); string(copied.Data["pin"]) != "4321" {
					return fmt.Errorf("it is %v", copied.Data)
				}
				return ctx.Err()
			})
		}
		if err == nil {
			err = s.reports(r, func(r *v1.CopyratorRule) error {
				if r.Status.Digest != first || r.Status.Synced != 1 {
					return fmt.Errorf("the digest depends on the content: %s and %s", first, r.Status.Digest)
				}
				return nil
			})
		}
		return err
	},
}

// sameStatus checks that two rules have the same status, one about something that exists and one about something that does
// not.
func (s *site) sameStatus(attack string, change func(r *v1.CopyratorRule, exists bool)) error {
	if err := s.as(s.eve, s.source(attack, attack)); err != nil {
		return err
	}
	var all []v1.CopyratorRuleStatus
	for i, exists := range []bool{true, false} {
		r := s.evilRule(fmt.Sprintf("%s-%d", attack, i), func(r *v1.CopyratorRule) {
			r.Selector = v1.Selector{Labels: map[string]string{"attack": attack}}
			change(r, exists)
		})
		err := s.as(s.eve, r)
		if err == nil {
			err = s.reports(r, func(r *v1.CopyratorRule) error {
				if conditions.Get(r, v1.ConditionSynced) == nil {
					return errors.New("it was not reconciled")
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
		status := withoutTimes(r.Status, attack, "")
		status.Digest = "" // of places that differ in nothing, and of the UID
		all = append(all, status)
	}
	if diff := cmp.Diff(all[0], all[1]); diff != "" {
		return fmt.Errorf("the status tells what exists (-) from what does not (+):\n%s", diff)
	}
	return nil
}

// loadAttacks try to use up the operator, the API server or the quotas of others.
var loadAttacks = map[string]func(*site, string) error{
	// S7a
	"ManySources": func(s *site, attack string) error {
		return s.limited(attack, "2 sources are not copied", 4, 6, 10)
	},
	"LargeContent": func(s *site, attack string) error {
		return s.limited(attack, "bytes for a rule", 1, 2, 60<<10)
	},
	// S7b: a namespace that gave no permission is not watched.
	"WatchesOfForeignNamespaces": func(s *site, attack string) error {
		r := s.evilRule(attack, func(r *v1.CopyratorRule) {
			r.Namespaces = []string{s.victim, s.excluded, "kube-public"}
		})
		err := s.as(s.eve, r)
		if err == nil {
			err = s.reports(r, func(r *v1.CopyratorRule) error {
				if c := conditions.Get(r, v1.ConditionAuthorized); c == nil || c.Reason != "NotGranted" {
					return fmt.Errorf("it is authorized: %+v", c)
				}
				return nil
			})
		}
		for _, req := range s.op.Recorder().Watches() {
			if slices.Contains([]string{s.victim, s.excluded, "kube-public"}, req.Namespace) {
				err = errors.Join(err, fmt.Errorf("the operator sends %v", req))
			}
		}
		return err
	},
	// S7b, S7d: selectors are evaluated in memory.
	"NewSelectors": func(s *site, attack string) error {
		r := s.evilRule(attack)
		if err := s.as(s.eve, s.source(attack, attack), r); err != nil {
			return err
		}
		for i := range 10 {
			err := update(s, s.eve, r, func(r *v1.CopyratorRule) {
				r.Selector = v1.Selector{Text: fmt.Sprintf("attack=%s,no-%d!=x", attack, i)}
			})
			if err == nil {
				err = s.reports(r, func(*v1.CopyratorRule) error { return nil })
			}
			if err != nil {
				return err
			}
		}
		watches := 0
		for _, req := range s.op.Recorder().Watches() {
			if req.Resource == "configmaps" && req.Namespace == s.evil {
				watches++
			}
		}
		if watches > 2 { // one for all rules of all attacks; it may be renewed
			return fmt.Errorf("there were %d watches of ConfigMaps in the namespace", watches)
		}
		return s.copied("eve's", attack)
	},
	"LongSelector": func(s *site, attack string) error {
		return s.refusedRule(attack, "selector is longer than", func(r *v1.CopyratorRule) {
			r.Selector = v1.Selector{Text: "attack in (" + strings.Repeat("x,", 3000) + attack + ")"}
		})
	},
	"ManySourceNamespaces": func(s *site, attack string) error {
		return s.refusedRule(attack, "namespace has more than 64 names", func(r *v1.CopyratorRule) {
			for i := range 65 {
				r.SourceNamespace.List = append(r.SourceNamespace.List, fmt.Sprintf("n-%d", i))
			}
		})
	},
	"ManyNamespaceLabels": func(s *site, attack string) error {
		return s.refusedRule(attack, "targetNamespaceSelector has more than", func(r *v1.CopyratorRule) {
			r.TargetNamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{}}
			for i := range 33 {
				r.TargetNamespaceSelector.MatchLabels[fmt.Sprintf("l-%d", i)] = ""
			}
		})
	},
	"SlowPatterns": func(s *site, attack string) error {
		return s.reach(attack, func(r *v1.CopyratorRule) {
			for i := range 60 {
				slow := strings.Repeat("*a", 20) + fmt.Sprintf("*%d", i)
				r.TargetNamespaces = append(r.TargetNamespaces, slow)
				r.ExcludeNamespaces = append(r.ExcludeNamespaces, slow)
			}
		})
	},
	"CharacterClasses": func(s *site, attack string) error {
		return s.refusedRule(attack, "is no pattern", func(r *v1.CopyratorRule) {
			r.DataKeys.Include = []string{"[a-z]*"}
		})
	},
}

// limited checks that a rule with more than it may have makes exactly this number of copies and says so.
func (s *site) limited(attack, sentence string, want int32, sources, size int) error {
	for i := range sources {
		o := s.source(attack, fmt.Sprintf("%s-%d", attack, i))
		o.Data["more"] = strings.Repeat("x", size)
		if err := s.as(s.eve, o); err != nil {
			return err
		}
	}
	r := s.evilRule(attack)
	if err := s.as(s.eve, r); err != nil {
		return err
	}
	return s.reports(r, func(r *v1.CopyratorRule) error {
		if r.Status.Desired != want || r.Status.Synced != want {
			return fmt.Errorf("it has %d of %d copies, want %d", r.Status.Synced, r.Status.Desired, want)
		}
		return errors.Join(says(v1.ConditionLimited, "LimitExceeded", sentence)(r),
			says(conditions.Reconciling, "LimitExceeded", sentence)(r))
	})
}

// S7a: all rules of one namespace together have limits, the older rules come first, and other tenants feel nothing. Rules
// of the operator's namespace have no limits.
func TestLimitsOfANamespace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(o *copyrator.Options) {
		o.Limits = &copyrator.Limits{Copies: 3, NamespaceRules: 3, NamespaceCopies: 4}
	})
	greedy, modest := c.namespace("greedy"), c.namespace("modest")
	target := c.namespace("target", accepting("*"))
	for i := range 3 {
		for _, namespace := range []string{c.Namespace, greedy, modest} {
			c.Apply(configMap(namespace, fmt.Sprintf("%s-%d", namespace, i), "x"))
		}
	}
	var rules []*v1.CopyratorRule
	for i := range 4 {
		r := c.rule(fmt.Sprintf("greedy-%d", i), func(r *v1.CopyratorRule) {
			r.Namespace = greedy
			r.CopyLabels.Strip = []string{strconv.Itoa(i)}
			r.TargetNamespaces = []string{target}
			r.Selector = v1.Selector{Text: fmt.Sprintf("copyrator,rule-%d!=no", i)}
		})
		c.Apply(r)
		c.waitForLaterSecond(r)
		rules = append(rules, r)
	}
	counts := func(n int32, limited bool) testkit.Check {
		return testkit.Match(fmt.Sprintf("%d copies", n), func(r *v1.CopyratorRule) bool {
			return r.Status.Desired == n && (conditions.Get(r, v1.ConditionLimited) != nil) == limited
		})
	}
	c.Eventually(rules[0], counts(3, false))
	c.Eventually(rules[1], counts(1, true)) // four for the namespace together
	c.Eventually(rules[2], counts(0, true))
	c.Eventually(rules[3], counts(0, true), testkit.Match("rules", func(r *v1.CopyratorRule) bool {
		return strings.Contains(conditions.Get(r, v1.ConditionLimited).Message, "more than 3 rules")
	}))
	other := c.rule("modest", func(r *v1.CopyratorRule) { r.Namespace = modest; r.TargetNamespaces = []string{target} })
	c.Apply(other)
	c.Eventually(other, testkit.Ready(), synced(3))
	trusted := c.rule("trusted")
	c.Apply(trusted)
	c.Eventually(trusted, testkit.Ready(), synced(9)) // in three other namespaces
	c.expectNoWritesAfterRestart()
	c.Delete(rules[0])
	c.Eventually(rules[1], counts(3, false))
	c.Eventually(rules[2], counts(1, true))
	c.Eventually(rules[3], counts(0, true))
}
