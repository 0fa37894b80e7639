package copyrator_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/copyrator"
	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// tenant is somebody who may do everything with rules, ConfigMaps and Secrets in a namespace, and nothing elsewhere.
func (c *cluster) tenant(namespace string) client.Client {
	c.t.Helper()
	user := "tenant-" + namespace
	c.Apply(&rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"flant.com"}, Resources: []string{"copyrators"}, Verbs: []string{"*"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"*"}},
		},
	})
	c.Apply(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	})
	cfg := rest.CopyConfig(c.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	as, err := client.New(cfg, client.Options{Scheme: c.Client.Scheme()})
	if err != nil {
		c.t.Fatal(err)
	}
	return as
}

// A tenant reads no Secret of another namespace by any rule, however it is written, unless that namespace or the Secret
// says so; and what was granted ends with the grant.
func TestTenantReadsNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	mine, victim := c.namespace("mine"), c.namespace("victim")
	as := c.tenant(mine)
	hidden := secret(victim, "hidden", "password")
	c.Apply(hidden)
	if err := as.Get(t.Context(), client.ObjectKeyFromObject(hidden), &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Fatalf("the tenant may read it anyway: %v", err)
	}
	rules := map[string]*v1.CopyratorRule{}
	for name, change := range map[string]func(*v1.CopyratorRule){
		"plain": func(r *v1.CopyratorRule) { r.SourceNamespace = v1.Names{List: []string{victim}, Single: true} },
		"list":  func(r *v1.CopyratorRule) { r.Namespaces = []string{victim} },
		"among": func(r *v1.CopyratorRule) { r.Namespaces = []string{mine, victim} },
		"text": func(r *v1.CopyratorRule) {
			r.Namespaces, r.Selector = []string{victim}, v1.Selector{Text: "copyrator,!app.kubernetes.io/managed-by"}
		},
		"force": func(r *v1.CopyratorRule) { r.Namespaces, r.ConflictPolicy = []string{victim}, v1.ConflictOverwrite },
		"forged": func(r *v1.CopyratorRule) { // what a rule says of itself grants nothing
			r.Namespaces = []string{victim}
			r.Annotations = map[string]string{"copyrator.flant.com/allow-from": "*"}
		},
		"dry": func(r *v1.CopyratorRule) { r.Namespaces, r.DryRun = []string{victim}, true },
	} {
		r := c.rule(name, func(r *v1.CopyratorRule) {
			r.Namespace, r.RuleType, r.TargetNamespaces = mine, "secret", []string{mine}
			change(r)
		})
		if err := as.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		rules[name] = r
	}
	dry := rules["dry"]
	delete(rules, "dry")
	c.Eventually(dry, testkit.Condition("DryRun", metav1.ConditionTrue))
	if message := conditions.Get(dry, "DryRun").Message; strings.Contains(message, "hidden") {
		t.Errorf("the dry run tells of the Secret: %s", message)
	}
	for _, r := range rules {
		c.Eventually(r, testkit.Condition(v1.ConditionAuthorized, metav1.ConditionFalse),
			testkit.Condition(conditions.Ready, metav1.ConditionFalse),
			testkit.Match("nothing of it is told", func(r *v1.CopyratorRule) bool {
				return r.Status.MatchedSources == 0 && r.Status.Desired == 0 && len(r.Status.Failures) == 0
			}))
	}
	c.rest()
	all := &corev1.SecretList{}
	if err := as.List(t.Context(), all, client.InNamespace(mine)); err != nil || len(all.Items) > 0 {
		t.Fatalf("the tenant has %v, %v", all.Items, err)
	}
	for _, r := range c.op.Requests() {
		if r.Verb == "get" && r.Resource == "secrets" {
			t.Errorf("the operator has read a Secret: %v", r)
		}
	}

	nobodyCanTell(c, as, mine, rules["plain"], victim)
	grantsEnd(c, mine, victim)
}

// nobodyCanTell checks that to a tenant a namespace that may not be read looks as one that does not exist.
func nobodyCanTell(c *cluster, as client.Client, mine string, plain *v1.CopyratorRule, victim string) {
	c.t.Helper()
	absent := c.rule("absent", func(r *v1.CopyratorRule) {
		r.Namespace, r.RuleType, r.TargetNamespaces, r.Namespaces = mine, "secret", []string{mine}, []string{victim + "-not"}
	})
	if err := as.Create(c.Context(), absent); err != nil {
		c.t.Fatal(err)
	}
	c.Eventually(absent, testkit.Condition(v1.ConditionAuthorized, metav1.ConditionFalse))
	c.Get(plain)
	says := func(r *v1.CopyratorRule, name string) string {
		return strings.ReplaceAll(conditions.Get(r, v1.ConditionAuthorized).Message, name, "X")
	}
	if a, b := says(plain, victim), says(absent, victim+"-not"); a != b {
		c.t.Errorf("it says %q, and of what does not exist %q", a, b)
	}
}

// grantsEnd checks that a grant for one Secret is one for no other, and that what was granted ends with the grant.
func grantsEnd(c *cluster, mine, victim string) {
	c.t.Helper()
	open := secret(victim, "open", "for all")
	open.Annotations = map[string]string{"copyrator.flant.com/allow-from": "nobody, " + mine}
	c.Apply(open)
	mineOpen := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "open"}}
	mineHidden := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "hidden"}}
	c.Eventually(mineOpen, testkit.Exists())
	c.gone(mineHidden)
	c.Update(open, func() { open.Annotations = nil })
	c.gone(mineOpen)
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: victim}}
	c.Update(n, func() { n.Annotations = map[string]string{"copyrator.flant.com/allow-from": c.Namespace + "-m*"} })
	c.Eventually(mineHidden, testkit.Exists())
	c.Update(n, func() { n.Annotations = nil })
	c.gone(mineHidden)
	c.gone(mineOpen)
}

// What the operator is told to let everybody read, tenants read, and nothing else; also where it sees no annotations.
func TestAllowedSourceNamespaces(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(o *copyrator.Options) { o.AllowSourceNamespaces = []string{"*-shared"} })
	mine, shared, victim := c.namespace("mine"), c.namespace("shared"), c.namespace("victim")
	c.Apply(configMap(shared, "x", "one"))
	c.Apply(configMap(victim, "y", "one"))
	rule := c.rule("r", func(r *v1.CopyratorRule) {
		r.Namespace, r.Namespaces, r.TargetNamespaces = mine, []string{shared}, []string{mine}
	})
	c.Apply(rule)
	c.Eventually(rule, testkit.Ready(), synced(1), testkit.Condition(v1.ConditionAuthorized, metav1.ConditionTrue))
	c.op.Stop()
	c.op = c.Run(in{copyrator.New(c.options), []string{mine, shared, victim}}, testkit.ClusterWide())
	c.Update(rule, func() { rule.Namespaces = []string{shared, victim} })
	c.Eventually(rule, synced(1), testkit.Reason(v1.ConditionAuthorized, metav1.ConditionFalse, "NotGranted"))
	c.gone(at(mine, "y"))
}

// A tenant's rule writes over nothing, and where the operator asks for consent it reaches only those who gave it.
func TestTenantWritesOverNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(o *copyrator.Options) { o.Consent = true })
	mine, victim := c.namespace("mine"), c.namespace("victim")
	friend := c.namespace("friend", annotated("copyrator.flant.com/accept-from", c.Namespace+"-mine"))
	as := c.tenant(mine)
	c.Apply(configMap(friend, "x", "theirs"))
	if err := as.Create(t.Context(), configMap(mine, "x", "mine")); err != nil {
		t.Fatal(err)
	}
	if err := as.Create(t.Context(), configMap(mine, "y", "mine")); err != nil {
		t.Fatal(err)
	}
	r := c.rule("r", func(r *v1.CopyratorRule) { r.Namespace = mine })
	if err := as.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	c.Eventually(at(friend, "y"), value("mine"))
	c.Eventually(r, conflicts(1), testkit.Match("one namespace", func(r *v1.CopyratorRule) bool {
		return r.Status.Desired == 2
	}))
	c.Eventually(at(friend, "x"), value("theirs"))
	c.gone(at(victim, "y"))
	for _, policy := range []v1.ConflictPolicy{v1.ConflictAdopt, v1.ConflictOverwrite} {
		c.Update(r, func() { r.ConflictPolicy = policy })
		c.Eventually(r, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "NotAuthorized"),
			testkit.Reason(v1.ConditionAuthorized, metav1.ConditionFalse, "ConflictPolicyNotAllowed"))
	}
	c.Eventually(at(friend, "x"), value("theirs"))
	trusted := c.rule("trusted", func(r *v1.CopyratorRule) { r.Selector.Labels = map[string]string{"trusted": "yes"} })
	z := configMap(c.Namespace, "z", "all")
	z.Labels = map[string]string{"trusted": "yes"}
	c.Apply(z)
	c.Apply(trusted)
	c.Eventually(at(victim, "z"), value("all")) // the operator's own need no consent
}

// However old a tenant's rule is, it takes no place from a rule in the operator's namespace, nor one in a third namespace
// from the rules of that one: to make an object of a name that is copied there already would replace its content everywhere.
func TestTenantTakesNoPlace(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	mine, other := c.namespace("mine"), c.namespace("other")
	as := c.tenant(mine)
	tenants := c.rule("tenants", func(r *v1.CopyratorRule) { r.Namespace, r.TargetNamespaces = mine, []string{other} })
	if err := as.Create(t.Context(), tenants); err != nil {
		t.Fatal(err)
	}
	c.laterThan(tenants)
	admins := c.rule("admins", func(r *v1.CopyratorRule) { r.TargetNamespaces = []string{other} })
	c.Apply(admins)
	c.Apply(configMap(c.Namespace, "ca", "the administrator's"))
	homes := c.namespace("source", annotated("copyrator.flant.com/allow-from", other))
	c.Apply(configMap(homes, "settings", "their own"))
	home := c.rule("home", func(r *v1.CopyratorRule) {
		r.Namespace, r.Namespaces, r.TargetNamespaces = other, []string{homes}, []string{other}
	})
	c.Apply(home)
	c.Eventually(admins, testkit.Ready(), synced(1))
	c.Eventually(home, testkit.Ready(), synced(1))
	for _, name := range []string{"ca", "settings", "free"} {
		if err := as.Create(t.Context(), configMap(mine, name, "the tenant's")); err != nil {
			t.Fatal(err)
		}
	}
	c.Eventually(at(other, "free"), value("the tenant's"))
	c.rest()
	c.Eventually(at(other, "ca"), value("the administrator's"))
	c.Eventually(at(other, "settings"), value("their own"))
	c.Eventually(admins, testkit.Ready(), synced(1), conflicts(0))
	c.Eventually(home, testkit.Ready(), synced(1), conflicts(0))

	// A place that the tenant had first is given up.
	c.Apply(configMap(c.Namespace, "free", "the administrator's"))
	c.Eventually(at(other, "free"), value("the administrator's"))
	c.Eventually(admins, testkit.Ready(), synced(2), conflicts(0))
	c.restart()
}
