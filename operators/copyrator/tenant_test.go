package copyrator_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/copyrator"
	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// site is the cluster of the tenant suite. User eve has the roles edit and copyrator-edit in namespace evil, as they are
// shipped, and user frank has role edit in namespace friend. All attacks use the same operator and namespaces.
type site struct {
	*cluster

	eve, frank client.Client
	// victim has given no consent. friend accepts copies of the rules in evil and in platform.
	evil, victim, friend, platform string
	// excluded is in --exclude-namespaces and accepts all copies.
	excluded string
}

// limits are small, so that an attack exceeds them with few objects.
var limits = copyrator.Limits{
	Sources: 4, Copies: 6, Bytes: 100 << 10, NamespaceRules: 100, NamespaceCopies: 400, NamespaceBytes: 10 << 20,
}

func newSite(t *testing.T) *site {
	t.Helper()
	k := testkit.New(t, testkit.WithoutOracles("a quota refuses copies", "forbidden"))
	c := clusterOn(t, k, func(o *copyrator.Options) {
		o.Limits = &limits
		o.ExcludeNamespaces = []string{"*-excluded"}
	})
	s := &site{cluster: c}
	s.victim = c.namespace("victim", annotated("victims", "yes"))
	s.excluded = c.namespace("excluded", accepting("*"))
	s.evil = c.namespace("evil")
	s.platform = c.namespace("platform")
	// It is the last one: a pass that has made a copy in it has made those in all other namespaces before.
	s.friend = c.namespace("friend", accepting(s.evil+", "+s.platform))
	s.eve = s.user("eve-"+s.evil, s.evil, "config/access/edit_role.yaml", "config/access/view_role.yaml")
	s.frank = s.user("frank-"+s.friend, s.friend)
	return s
}

// user returns a client that acts as a user with role edit in one namespace, and with the roles in these files. Role edit is
// an aggregation, and this control plane has no controller for these, so the user has its parts.
func (s *site) user(name, namespace string, files ...string) client.Client {
	s.t.Helper()
	roles := []string{"system:aggregate-to-view", "system:aggregate-to-edit"}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		role := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict(raw, role); err != nil {
			s.t.Fatal(err)
		}
		role.Name += "-" + name // other tests share the control plane
		role.Labels = nil
		s.Apply(role)
		s.t.Cleanup(func() { _ = s.Client.Delete(context.Background(), role) })
		roles = append(roles, role.Name)
	}
	for i, role := range roles {
		s.Apply(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, i)},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
		})
	}
	cfg := rest.CopyConfig(s.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	as, err := client.New(cfg, client.Options{Scheme: s.Client.Scheme()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Wait("the permissions of "+name, func(ctx context.Context) error {
		return as.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace))
	})
	return as
}

// source returns a source of an attack in eve's namespace.
func (s *site) source(attack, name string) *corev1.ConfigMap {
	o := configMap(s.evil, name, "eve's")
	o.Labels = map[string]string{"attack": attack}
	return o
}

// evilRule returns a rule of an attack: it copies the sources of the attack to all namespaces of the test.
func (s *site) evilRule(attack string, change ...func(*v1.CopyratorRule)) *v1.CopyratorRule {
	r := s.rule(attack, func(r *v1.CopyratorRule) {
		r.Namespace = s.evil
		r.Selector = v1.Selector{Labels: map[string]string{"attack": attack}}
	})
	for _, f := range change {
		f(r)
	}
	return r
}

// as creates the objects as a user.
func (s *site) as(user client.Client, objects ...client.Object) error {
	for _, o := range objects {
		if err := user.Create(s.Context(), o); err != nil {
			return err
		}
	}
	return nil
}

// update changes an object as a user.
func update[C client.Object](s *site, user client.Client, o C, change func(C)) error {
	return s.until("an update of "+o.GetName(), func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change(o)
		return user.Update(ctx, o)
	})
}

// until polls until done returns nil. Unlike K.Wait it may be called by parallel subtests.
func (s *site) until(what string, done func(context.Context) error) error {
	var last error
	poll := func(ctx context.Context) (bool, error) {
		last = done(ctx)
		return last == nil, nil
	}
	err := wait.PollUntilContextTimeout(s.Context(), 20*time.Millisecond, s.Timeout, true, poll)
	if err != nil {
		return fmt.Errorf("waiting for %s: %w: %w", what, err, last)
	}
	return nil
}

// copied waits for copies in namespace friend, with that value.
func (s *site) copied(value string, names ...string) error {
	return s.until("copies in the accepting namespace", func(ctx context.Context) error {
		for _, name := range names {
			o := configMapRef(s.friend, name)
			if err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if o.Data["key"] != value {
				return fmt.Errorf("%s has %v", name, o.Data)
			}
		}
		return nil
	})
}

// gone waits until an object does not exist.
func (s *site) gone(o client.Object) error {
	return s.until("the end of "+o.GetName(), func(ctx context.Context) error { return s.absent(ctx, o) })
}

func (s *site) absent(ctx context.Context, o client.Object) error {
	err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	if err == nil {
		return fmt.Errorf("%T %s/%s exists: %v", o, o.GetNamespace(), o.GetName(), o.GetLabels())
	}
	return client.IgnoreNotFound(err)
}

// reports waits until a rule was reconciled and has the state.
func (s *site) reports(r *v1.CopyratorRule, state func(*v1.CopyratorRule) error) error {
	return s.until("the status of "+r.Name, func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if r.Status.ObservedGeneration != r.Generation || conditions.Get(r, conditions.Ready) == nil {
			return fmt.Errorf("generation %d is not observed", r.Generation)
		}
		return state(r)
	})
}

// says checks that a condition has the reason, and the text in its message.
func says(condition, reason, text string) func(*v1.CopyratorRule) error {
	return func(r *v1.CopyratorRule) error {
		c := conditions.Get(r, condition)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("condition %s is %+v, want reason %s with %q", condition, c, reason, text)
		}
		return nil
	}
}

// nothingElsewhere checks that no namespace but friend has an object of that name. It is called when friend has one.
func (s *site) nothingElsewhere(name string) error {
	for _, namespace := range []string{s.victim, s.excluded, s.Namespace, s.platform, "kube-system", "kube-public"} {
		for _, o := range []client.Object{
			configMapRef(namespace, name), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		} {
			if err := s.absent(s.Context(), o); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestTenant tries what a tenant may not do, as user eve. The bound is her own permissions: nothing is done on her behalf
// that she may not do herself, except for copies in namespaces that accept them. docs/security.md lists the findings.
func TestTenant(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	type attacks = map[string]func(*site, string) error
	for _, attacks := range []attacks{writeAttacks, metadataAttacks, placeAttacks, statusAttacks, loadAttacks} {
		for name, attack := range attacks {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if err := attack(s, strings.ToLower(name)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// writeAttacks try to write into namespaces that gave no consent.
var writeAttacks = map[string]func(*site, string) error{
	// S1: a ConfigMap that cluster DNS reads.
	"WriteToKubeSystemByName": func(s *site, attack string) error {
		return s.reach(attack, func(r *v1.CopyratorRule) { r.TargetNamespaces = []string{"kube-system", s.friend} })
	},
	"WriteByPattern": func(s *site, attack string) error {
		return s.reach(attack, func(r *v1.CopyratorRule) { r.TargetNamespaces = []string{"*"} })
	},
	"WriteToAll": func(s *site, attack string) error {
		return s.reach(attack, func(r *v1.CopyratorRule) { r.TargetNamespaces = nil })
	},
	"WriteByNamespaceLabels": func(s *site, attack string) error {
		return s.reach(attack, func(r *v1.CopyratorRule) {
			r.TargetNamespaces = nil
			r.TargetNamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn,
				Values: []string{"kube-system", s.victim, s.excluded, s.Namespace, s.friend},
			}}}
		})
	},
	"ConsentByOwnAnnotations": func(s *site, attack string) error {
		consent := map[string]string{"copyrator.flant.com/accept-from": "*", "copyrator.flant.com/allow-from": "*"}
		o := s.source(attack, attack)
		o.Annotations = consent
		return s.reachWith(attack, o, func(r *v1.CopyratorRule) { r.Annotations = consent })
	},
	"ConsentIsWithdrawn": func(s *site, attack string) error {
		lent := s.namespace("lent", accepting(s.evil))
		o := configMapRef(lent, attack)
		err := s.as(s.eve, s.source(attack, attack), s.evilRule(attack))
		if err == nil {
			err = s.until("the copy", func(ctx context.Context) error {
				return s.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
			})
		}
		if err == nil {
			err = update(s, s.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lent}}, func(n *corev1.Namespace) {
				n.Annotations = nil
			})
		}
		if err != nil {
			return err
		}
		return s.gone(o)
	},
	// S2: the credentials of a Database that does not exist yet.
	"PlantSecret": func(s *site, attack string) error {
		o := &corev1.Secret{ObjectMeta: s.source(attack, attack).ObjectMeta, StringData: map[string]string{"password": "x"}}
		r := s.evilRule(attack, func(r *v1.CopyratorRule) {
			r.RuleType = "secret"
			r.TargetNamespaces = []string{"*"}
		})
		copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.friend, Name: attack}}
		err := s.as(s.eve, o, r)
		if err == nil {
			err = s.until("the copy", func(ctx context.Context) error {
				return s.Client.Get(ctx, client.ObjectKeyFromObject(copied), copied)
			})
		}
		if err != nil {
			return err
		}
		return s.nothingElsewhere(attack)
	},
	"PlantSecretTypes": func(s *site, attack string) error {
		types := []corev1.SecretType{
			"bootstrap.kubernetes.io/token", "helm.sh/release.v1", "rke.cattle.io/machine-plan", "istio.io/key-and-cert",
		}
		for i, secretType := range types {
			o := &corev1.Secret{ObjectMeta: s.source(attack, fmt.Sprintf("%s-%d", attack, i)).ObjectMeta, Type: secretType}
			if err := s.as(s.eve, o); err != nil {
				return err
			}
		}
		r := s.evilRule(attack, func(r *v1.CopyratorRule) { r.RuleType = "secret" })
		if err := s.as(s.eve, r); err != nil {
			return err
		}
		return s.reports(r, func(r *v1.CopyratorRule) error {
			refused := slices.IndexFunc(r.Status.Failures, func(f v1.Failure) bool { return f.Reason != "NotCopied" }) < 0
			if r.Status.MatchedSources != 4 || len(r.Status.Failures) != 4 || !refused || r.Status.Desired != 0 {
				return fmt.Errorf("the status is %+v", r.Status)
			}
			return nil
		})
	},
	"PlantPublishedNames": func(s *site, attack string) error {
		if err := s.as(s.eve, s.source(attack, "openshift-service-ca.crt")); err != nil {
			return err
		}
		if err := s.reach(attack, func(*v1.CopyratorRule) {}); err != nil {
			return err
		}
		return s.absent(s.Context(), configMapRef(s.friend, "openshift-service-ca.crt"))
	},
	"WriteStatus": func(s *site, attack string) error {
		r := s.evilRule(attack)
		r.Status.Desired = 7
		if err := s.as(s.eve, r); err != nil {
			return err
		}
		if r.Status.Desired == 7 {
			return fmt.Errorf("a created rule has the status %+v", r.Status)
		}
		if err := s.eve.Status().Update(s.Context(), r); !apierrors.IsForbidden(err) {
			return fmt.Errorf("eve may write the status: %w", err)
		}
		return nil
	},
}

// reach checks that a rule of eve copies to the namespaces that accept its copies and to no others.
func (s *site) reach(attack string, change func(*v1.CopyratorRule)) error {
	return s.reachWith(attack, s.source(attack, attack), change)
}

func (s *site) reachWith(attack string, source client.Object, change func(*v1.CopyratorRule)) error {
	err := s.as(s.eve, source, s.evilRule(attack, change))
	if err == nil {
		err = s.copied("eve's", source.GetName())
	}
	if err != nil {
		return err
	}
	return s.nothingElsewhere(source.GetName())
}
