package copyrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// metadataAttacks try to put metadata on copies on which other controllers act.
var metadataAttacks = map[string]func(*site, string) error{
	// S1: Argo CD takes a Secret with this label as a cluster with credentials of eve's choice.
	"AddForeignLabel": func(s *site, attack string) error {
		sentence := "labels.add: a rule outside of namespace " + s.Namespace + " may not add argocd"
		return s.refusedRule(attack, sentence, func(r *v1.CopyratorRule) {
			r.CopyLabels.Add = map[string]string{"argocd.argoproj.io/secret-type": "cluster"}
		})
	},
	"AddOwnerLabel": func(s *site, attack string) error {
		return s.refusedRule(attack, "homeostat.dev/owner-uid has a meaning for Copyrator", func(r *v1.CopyratorRule) {
			r.CopyLabels.Add = map[string]string{"homeostat.dev/owner-uid": "1"}
		})
	},
	// A refusal by a copy would keep the copies of others out of the namespace.
	"AddRefusal": func(s *site, attack string) error {
		return s.refusedRule(attack, "copyrator.flant.com/refuse has a meaning for Copyrator", func(r *v1.CopyratorRule) {
			r.CopyLabels.Add = map[string]string{"copyrator.flant.com/refuse": ""}
		})
	},
	"CopyForeignMetadata": func(s *site, attack string) error {
		owner, o := s.source("none", attack+"-owner"), s.source(attack, attack)
		if err := s.as(s.eve, owner); err != nil {
			return err
		}
		o.Labels["app.kubernetes.io/instance"] = "orders" // S2
		o.Labels["sealedsecrets.bitnami.com/sealed-secrets-key"] = "active"
		o.Labels["copyrator.flant.com/refuse"] = ""
		o.Labels["copyrator.flant.com/shared"] = ""
		o.Labels["copyrator.flant.com/harmless"] = "yes"
		o.Annotations = map[string]string{"meta.helm.sh/release-name": "orders", "copyrator.flant.com/refuse": "*"}
		o.Finalizers = []string{"example.com/forever"}
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
		r := s.evilRule(attack, func(r *v1.CopyratorRule) { r.CopyLabels.Strip = []string{"nothing"} })
		err := s.as(s.eve, o, r)
		if err == nil {
			err = s.copied("eve's", attack)
		}
		copied := configMapRef(s.friend, attack)
		err = errors.Join(err, s.Client.Get(s.Context(), client.ObjectKeyFromObject(copied), copied),
			update(s, s.eve, o, func(o *corev1.ConfigMap) { o.Finalizers = nil }))
		for key := range copied.Labels {
			if !slices.Contains([]string{
				"copyrator.flant.com/harmless", "app.kubernetes.io/managed-by", "homeostat.dev/owner-uid",
			}, key) {
				err = errors.Join(err, fmt.Errorf("the copy has label %s", key))
			}
		}
		for key := range copied.Annotations {
			if !slices.Contains([]string{"copyrator.flant.com/source", "homeostat.dev/owner", "homeostat.dev/applied"}, key) {
				err = errors.Join(err, fmt.Errorf("the copy has annotation %s", key))
			}
		}
		if len(copied.Finalizers)+len(copied.OwnerReferences) > 0 {
			err = errors.Join(err, fmt.Errorf("the copy has finalizers %v and owners %v", copied.Finalizers, copied.OwnerReferences))
		}
		return err
	},
	// F12: an object with a single mark of a copy is none.
	"SourceWithAMark": func(s *site, attack string) error {
		o := s.source(attack, attack+"-marked")
		o.Annotations = map[string]string{"copyrator.flant.com/source": "a/b"}
		if err := s.as(s.eve, o); err != nil {
			return err
		}
		if err := s.reach(attack, func(*v1.CopyratorRule) {}); err != nil {
			return err
		}
		return s.absent(s.Context(), configMapRef(s.friend, attack+"-marked"))
	},
}

// refusedRule checks that a rule of eve is invalid, with the sentence, and has no copies.
func (s *site) refusedRule(attack, sentence string, change func(*v1.CopyratorRule)) error {
	r := s.evilRule(attack, change)
	err := s.as(s.eve, s.source(attack, attack), r)
	if err == nil {
		err = s.reports(r, says(conditions.Stalled, "InvalidRule", sentence))
	}
	if err != nil {
		return err
	}
	return s.absent(s.Context(), configMapRef(s.friend, attack))
}

// placeAttacks try to take or keep names in namespaces that accept copies.
var placeAttacks = map[string]func(*site, string) error{
	// S8: an editor who may not write the Namespace refuses a copy. The refusal wins at once and stays.
	"CopyIsRefused": func(s *site, attack string) error {
		source := s.source(attack, attack)
		err := s.as(s.eve, source, s.source(attack, attack+"-other"), s.evilRule(attack))
		if err == nil {
			err = s.copied("eve's", attack, attack+"-other")
		}
		copied := configMapRef(s.friend, attack)
		if err == nil {
			err = s.as(s.frank, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: s.friend, Name: "no-" + attack, Labels: map[string]string{"copyrator.flant.com/refuse": ""},
				Annotations: map[string]string{"copyrator.flant.com/refuse": attack},
			}})
		}
		if err == nil {
			err = s.gone(copied)
		}
		if err == nil {
			err = s.as(s.frank, configMap(s.friend, attack, "frank's")) // the name is free
		}
		if err == nil {
			err = update(s, s.eve, source, func(o *corev1.ConfigMap) { o.Data["key"] = "eve's" + attack })
		}
		if err == nil {
			err = s.frank.Delete(s.Context(), configMapRef(s.friend, attack))
		}
		other := s.source(attack, attack+"-other")
		if err == nil {
			err = update(s, s.eve, other, func(o *corev1.ConfigMap) { o.Data["key"] = "again" })
		}
		if err == nil {
			err = s.copied("again", attack+"-other")
		}
		if err != nil {
			return err
		}
		return s.absent(s.Context(), copied)
	},
	// S8: an old rule does not take names from the copies of a younger one.
	"OldRuleTakesNames": func(s *site, attack string) error {
		r := s.evilRule(attack)
		if err := s.as(s.eve, r); err != nil {
			return err
		}
		s.waitForLaterSecond(r)
		ca := configMap(s.platform, attack, "the platform's")
		younger := s.rule("platform", func(r *v1.CopyratorRule) { r.Namespace = s.platform })
		err := s.as(s.Client, ca, younger)
		if err == nil {
			err = s.copied("the platform's", attack)
		}
		if err == nil {
			err = s.as(s.eve, s.source(attack, attack), s.source(attack, attack+"-control"))
		}
		if err == nil {
			err = s.copied("eve's", attack+"-control")
		}
		if err == nil {
			err = s.copied("the platform's", attack)
		}
		if err != nil {
			return err
		}
		return s.reports(r, func(r *v1.CopyratorRule) error {
			f := r.Status.Failures
			if len(f) != 1 || f[0].Reason != "NotAccepted" || strings.Contains(f[0].Message, s.platform) {
				return fmt.Errorf("the failures are %+v", f)
			}
			return nil
		})
	},
	// A rule that stops to work keeps no place from a rule of the operator's namespace.
	"SuspendedRuleKeepsPlace": func(s *site, attack string) error {
		r := s.evilRule(attack)
		err := s.as(s.eve, s.source(attack, attack), r)
		if err == nil {
			err = s.copied("eve's", attack)
		}
		if err == nil {
			err = update(s, s.eve, r, func(r *v1.CopyratorRule) { r.Suspend = true })
		}
		trusted := configMap(s.Namespace, attack, "the administrator's")
		trusted.Labels = map[string]string{"attack": attack}
		if err == nil {
			err = s.as(s.Client, trusted, s.rule("trusted-"+attack, func(r *v1.CopyratorRule) {
				r.Selector = v1.Selector{Labels: map[string]string{"attack": attack}}
				r.TargetNamespaces = []string{s.friend}
			}))
		}
		if err != nil {
			return err
		}
		return s.copied("the administrator's", attack)
	},
	// The namespace's own rules come before those of others.
	"PlaceOfTheNamespacesOwnRule": func(s *site, attack string) error {
		err := s.as(s.eve, s.source(attack, attack), s.evilRule(attack))
		if err == nil {
			err = s.copied("eve's", attack)
		}
		home := s.namespace("home", annotated("copyrator.flant.com/allow-from", s.friend))
		source := configMap(home, attack, "frank's")
		source.Labels = map[string]string{"attack": attack}
		rule := s.evilRule(attack, func(r *v1.CopyratorRule) {
			r.Namespace = s.friend
			r.Namespaces = []string{home}
		})
		if err == nil {
			err = s.as(s.Client, source, rule)
		}
		if err == nil {
			err = s.copied("frank's", attack)
		}
		if err == nil {
			err = s.Client.Delete(s.Context(), rule)
		}
		return err
	},
	// S16: a trusted rule whose sources eve writes. It overwrites what its author wanted, and hands it back.
	"OverwriteByTrustedRule": func(s *site, attack string) error {
		theirs := configMap(s.victim, attack, "theirs")
		theirs.Labels = map[string]string{"app": "x"}
		trusted := s.rule("trusted-"+attack, func(r *v1.CopyratorRule) {
			r.Selector = v1.Selector{Labels: map[string]string{"attack": attack}}
			r.Namespaces = []string{s.evil}
			r.ConflictPolicy = v1.ConflictOverwrite
			r.TargetNamespaces = []string{s.victim, s.friend, "kube-system"}
		})
		err := s.as(s.Client, theirs, trusted)
		if err == nil {
			err = s.as(s.eve, s.source(attack, attack))
		}
		if err == nil {
			err = s.copied("eve's", attack)
		}
		if err == nil {
			err = s.absent(s.Context(), configMapRef("kube-system", attack))
		}
		if err == nil {
			err = s.Client.Delete(s.Context(), trusted)
		}
		if err == nil {
			err = s.gone(configMapRef(s.friend, attack)) // that one was a copy
		}
		if err == nil {
			err = s.gone(trusted)
		}
		if err != nil {
			return err
		}
		return s.handedBack(theirs)
	},
	// S15: a user of a target namespace holds the copy of a rule by a finalizer, and a forged copy. The rule goes without them.
	"HoldCopy": func(s *site, attack string) error {
		source := configMap(s.Namespace, attack, "the administrator's")
		source.Labels = map[string]string{"attack": attack}
		trusted := s.rule("trusted-"+attack, func(r *v1.CopyratorRule) {
			r.Selector = v1.Selector{Labels: map[string]string{"attack": attack}}
			r.TargetNamespaces = []string{s.friend}
		})
		err := s.as(s.Client, source, trusted)
		if err == nil {
			err = s.copied("the administrator's", attack)
		}
		copied, forged := configMapRef(s.friend, attack), configMap(s.friend, attack+"-forged", "frank's")
		hold := func(o *corev1.ConfigMap) { o.Finalizers = []string{"frank.example/hold"} }
		if err == nil {
			err = update(s, s.frank, copied, hold)
		}
		forged.Labels = copied.Labels
		forged.Annotations = copied.Annotations
		hold(forged)
		if err == nil {
			err = s.frank.Create(s.Context(), forged, client.FieldOwner("copyrator"))
		}
		if err == nil {
			err = s.Client.Delete(s.Context(), trusted)
		}
		if err == nil {
			err = s.gone(trusted)
		}
		if err == nil {
			err = s.Client.Get(s.Context(), client.ObjectKeyFromObject(copied), copied)
		}
		if err == nil && copied.DeletionTimestamp == nil {
			err = errors.New("the copy is not being deleted")
		}
		for _, o := range []*corev1.ConfigMap{copied, forged} {
			err = errors.Join(err, update(s, s.frank, o, func(o *corev1.ConfigMap) { o.Finalizers = nil }))
		}
		return errors.Join(err, s.gone(copied))
	},
}

// handedBack checks that an object that was taken over exists and has no mark of a copy.
func (s *site) handedBack(o client.Object) error {
	return s.until("the object without marks", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		for key := range o.GetLabels() {
			if strings.Contains(key, "homeostat") || key == "app.kubernetes.io/managed-by" {
				return fmt.Errorf("it has label %s", key)
			}
		}
		for key := range o.GetAnnotations() {
			return fmt.Errorf("it has annotation %s", key)
		}
		return nil
	})
}

// fullNamespace creates a namespace that accepts eve's copies and has a quota of no ConfigMap.
func (s *site) fullNamespace() (string, error) {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "full-" + s.Namespace}}
	accepting(s.evil)(n)
	s.t.Cleanup(func() { _ = s.Client.Delete(context.Background(), n) })
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "none"}}
	none := corev1.ResourceList{"count/configmaps": resource.MustParse("0")}
	quota.Spec.Hard = none
	if err := s.as(s.Client, n, quota); err != nil {
		return "", err
	}
	err := s.until("the quota", func(ctx context.Context) error { // its controller may write it, too
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
		if err := s.Client.Status().Update(ctx, quota); err != nil {
			return err
		}
		if err := s.Client.Create(ctx, configMap(n.Name, "probe", ""), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a ConfigMap is admitted: %w", err)
		}
		return nil
	})
	return n.Name, err
}

// withoutTimes returns a status without its times and with X in place of these names.
func withoutTimes(s v1.CopyratorRuleStatus, name, namespace string) v1.CopyratorRuleStatus {
	s = *s.DeepCopy()
	s.LastSyncTime = nil
	s.Digest = ""
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	for i := range s.Failures {
		s.Failures[i].Name = strings.ReplaceAll(s.Failures[i].Name, name, "X")
		if s.Failures[i].Namespace == namespace {
			s.Failures[i].Namespace = "X"
		}
	}
	return s
}
