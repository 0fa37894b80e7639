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

// tenant returns a client with full permissions for rules, ConfigMaps and Secrets in one namespace, and none elsewhere.
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

// A tenant cannot read a Secret of another namespace through any rule, unless that namespace or the Secret permits it. The
// access ends with the permission.
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
			r.Namespaces = []string{victim}
			r.Selector = v1.Selector{Text: "copyrator,!app.kubernetes.io/managed-by"}
		},
		"force": func(r *v1.CopyratorRule) {
			r.Namespaces = []string{victim}
			r.ConflictPolicy = v1.ConflictOverwrite
		},
		"forged": func(r *v1.CopyratorRule) { // annotations of a rule grant nothing
			r.Namespaces = []string{victim}
			r.Annotations = map[string]string{"copyrator.flant.com/allow-from": "*"}
		},
		"dry": func(r *v1.CopyratorRule) {
			r.Namespaces = []string{victim}
			r.DryRun = true
		},
	} {
		r := c.rule(name, func(r *v1.CopyratorRule) {
			r.Namespace = mine
			r.RuleType = "secret"
			r.TargetNamespaces = []string{mine}
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
		t.Errorf("the dry run discloses the Secret: %s", message)
	}
	for _, r := range rules {
		c.Eventually(r, testkit.Condition(v1.ConditionAuthorized, metav1.ConditionFalse),
			testkit.Condition(conditions.Ready, metav1.ConditionFalse),
			testkit.Match("it discloses nothing", func(r *v1.CopyratorRule) bool {
				return r.Status.MatchedSources == 0 && r.Status.Desired == 0 && len(r.Status.Failures) == 0
			}))
	}
	c.waitIdle()
	all := &corev1.SecretList{}
	if err := as.List(t.Context(), all, client.InNamespace(mine)); err != nil || len(all.Items) > 0 {
		t.Fatalf("the tenant has %v, %v", all.Items, err)
	}
	for _, r := range c.op.Requests() {
		if r.Verb == "get" && r.Resource == "secrets" {
			t.Errorf("the operator has read a Secret: %v", r)
		}
	}

	checkNotDisclosed(c, as, mine, rules["plain"], victim)
	checkGrantEnds(c, mine, victim)
}

// checkNotDisclosed checks that an unreadable namespace and a missing one look the same to a tenant.
func checkNotDisclosed(c *cluster, as client.Client, mine string, plain *v1.CopyratorRule, victim string) {
	c.t.Helper()
	absent := c.rule("absent", func(r *v1.CopyratorRule) {
		r.Namespace = mine
		r.RuleType = "secret"
		r.TargetNamespaces = []string{mine}
		r.Namespaces = []string{victim + "-not"}
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

// checkGrantEnds checks that a permission for one Secret is none for another, and that the access ends with the
// permission.
func checkGrantEnds(c *cluster, mine, victim string) {
	c.t.Helper()
	open := secret(victim, "open", "for all")
	open.Labels["copyrator.flant.com/shared"] = ""
	open.Annotations = map[string]string{"copyrator.flant.com/allow-from": "elsewhere, " + mine}
	c.Apply(open)
	mineOpen := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "open"}}
	mineHidden := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "hidden"}}
	c.Eventually(mineOpen, testkit.Exists())
	c.waitGone(mineHidden)
	c.Update(open, func() { open.Annotations = nil })
	c.waitGone(mineOpen)
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: victim}}
	c.Update(n, func() { n.Annotations = map[string]string{"copyrator.flant.com/allow-from": c.Namespace + "-m*"} })
	c.Eventually(mineHidden, testkit.Exists())
	c.Update(n, func() { n.Annotations = nil })
	c.waitGone(mineHidden)
	c.waitGone(mineOpen)
}

// Tenants can read the namespaces of AllowSourceNamespaces and no others, also if the operator cannot read annotations.
func TestAllowedSourceNamespaces(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(o *copyrator.Options) { o.AllowSourceNamespaces = []string{"*-shared"} })
	mine, shared, victim := c.namespace("mine"), c.namespace("shared"), c.namespace("victim")
	c.Apply(configMap(shared, "x", "one"))
	c.Apply(configMap(victim, "y", "one"))
	rule := c.rule("r", func(r *v1.CopyratorRule) {
		r.Namespace = mine
		r.Namespaces = []string{shared}
		r.TargetNamespaces = []string{mine}
	})
	c.Apply(rule)
	c.Eventually(rule, testkit.Ready(), synced(1), testkit.Condition(v1.ConditionAuthorized, metav1.ConditionTrue))
	c.op.Stop()
	c.op = c.Run(inNamespaces{copyrator.New(c.options), []string{mine, shared, victim}}, testkit.ClusterWide())
	c.Update(rule, func() { rule.Namespaces = []string{shared, victim} })
	c.Eventually(rule, synced(1), testkit.Reason(v1.ConditionAuthorized, metav1.ConditionFalse, "NotGranted"))
	c.waitGone(configMapRef(mine, "y"))
}

// A tenant's rule overwrites nothing and reaches only namespaces that accept it.
func TestTenantOverwritesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
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
	c.Eventually(configMapRef(friend, "y"), hasValue("mine"))
	c.Eventually(r, conflicts(1), testkit.Match("one namespace", func(r *v1.CopyratorRule) bool {
		return r.Status.Desired == 2
	}))
	c.Eventually(configMapRef(friend, "x"), hasValue("theirs"))
	c.waitGone(configMapRef(victim, "y"))
	for _, policy := range []v1.ConflictPolicy{v1.ConflictAdopt, v1.ConflictOverwrite} {
		c.Update(r, func() { r.ConflictPolicy = policy })
		c.Eventually(r, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "NotAuthorized"),
			testkit.Reason(v1.ConditionAuthorized, metav1.ConditionFalse, "ConflictPolicyNotAllowed"))
	}
	c.Eventually(configMapRef(friend, "x"), hasValue("theirs"))
	trusted := c.rule("trusted", func(r *v1.CopyratorRule) { r.Selector.Labels = map[string]string{"trusted": "yes"} })
	z := configMap(c.Namespace, "z", "all")
	z.Labels = map[string]string{"trusted": "yes"}
	c.Apply(z)
	c.Apply(trusted)
	c.Eventually(configMapRef(victim, "z"), hasValue("all")) // the operator's rules need no consent
}

// Even an older rule of a tenant has no precedence over a rule in the operator's namespace, nor over one in the target
// namespace. Otherwise a tenant could replace copied objects everywhere.
func TestTenantRuleHasNoPrecedence(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	mine, other := c.namespace("mine"), c.namespace("other", accepting("*"))
	as := c.tenant(mine)
	tenants := c.rule("tenants", func(r *v1.CopyratorRule) {
		r.Namespace = mine
		r.TargetNamespaces = []string{other}
	})
	if err := as.Create(t.Context(), tenants); err != nil {
		t.Fatal(err)
	}
	c.waitForLaterSecond(tenants)
	admins := c.rule("admins", func(r *v1.CopyratorRule) { r.TargetNamespaces = []string{other} })
	c.Apply(admins)
	c.Apply(configMap(c.Namespace, "ca", "the administrator's"))
	homes := c.namespace("source", annotated("copyrator.flant.com/allow-from", other))
	c.Apply(configMap(homes, "settings", "their own"))
	home := c.rule("home", func(r *v1.CopyratorRule) {
		r.Namespace = other
		r.Namespaces = []string{homes}
		r.TargetNamespaces = []string{other}
	})
	c.Apply(home)
	c.Eventually(admins, testkit.Ready(), synced(1))
	c.Eventually(home, testkit.Ready(), synced(1))
	for _, name := range []string{"ca", "settings", "free"} {
		if err := as.Create(t.Context(), configMap(mine, name, "the tenant's")); err != nil {
			t.Fatal(err)
		}
	}
	c.Eventually(configMapRef(other, "free"), hasValue("the tenant's"))
	c.waitIdle()
	c.Eventually(configMapRef(other, "ca"), hasValue("the administrator's"))
	c.Eventually(configMapRef(other, "settings"), hasValue("their own"))
	c.Eventually(admins, testkit.Ready(), synced(1), conflicts(0))
	c.Eventually(home, testkit.Ready(), synced(1), conflicts(0))

	// A copy of the tenant gives way to a rule with precedence.
	c.Apply(configMap(c.Namespace, "free", "the administrator's"))
	c.Eventually(configMapRef(other, "free"), hasValue("the administrator's"))
	c.Eventually(admins, testkit.Ready(), synced(2), conflicts(0))
	c.expectNoWritesAfterRestart()
}
