package copyrator_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/copyrator"
	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The unchanged rule of the article on a cluster of its own: all active namespaces except kube-*, including new
// ones, get the ConfigMaps of namespace default, and changes of a source reach all of them.
func TestArticle(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	running := k.Run(copyrator.New(copyrator.Options{Namespace: "default"}), testkit.ClusterWide())
	raw, err := os.ReadFile("config/samples/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rule := &v1.CopyratorRule{}
	if err := yaml.UnmarshalStrict(raw, rule); err != nil {
		t.Fatal(err)
	}
	k.Apply(rule)
	k.Apply(configMap("default", "settings", "one"))
	k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "old"}})
	k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}})
	for _, namespace := range []string{k.Namespace, "old"} {
		k.Eventually(configMapRef(namespace, "settings"), hasValue("one"))
	}
	k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
	k.Eventually(configMapRef("new", "settings"), hasValue("one"))
	source := configMapRef("default", "settings")
	k.Update(source, func() { source.Data["key"] = "two" })
	for _, namespace := range []string{k.Namespace, "old", "new"} {
		k.Eventually(configMapRef(namespace, "settings"), hasValue("two"))
	}
	k.Eventually(rule, testkit.Ready(), synced(3), testkit.Match("one source", func(r *v1.CopyratorRule) bool {
		return r.Status.MatchedSources == 1 && r.Status.LastSyncTime != nil
	}))
	all := &corev1.ConfigMapList{}
	if err := k.Client.List(t.Context(), all, client.MatchingLabels{"app.kubernetes.io/managed-by": "copyrator"}); err != nil {
		t.Fatal(err)
	}
	if len(all.Items) != 3 { // none in kube-*
		t.Errorf("there are %d copies, want 3", len(all.Items))
	}
	k.Delete(rule)
	k.Eventually(rule, testkit.Gone())
	k.Eventually(configMapRef("new", "settings"), testkit.Gone())
	k.Eventually(configMapRef("default", "settings"), hasValue("two"))
	running.Stop()
}

// Both forms of the article's rule are equivalent.
func TestBothSpellings(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	source, target := c.namespace("source"), c.namespace("target")
	c.Apply(configMap(source, "x", "one"))
	for name, fields := range map[string]string{
		"map-and-name":  `{selector: {copyrator: "true"}, namespace: ` + source + `}`,
		"map-and-list":  `{selector: {copyrator: "true"}, namespace: [` + source + `]}`,
		"text-and-list": `{selector: "copyrator=true", namespaces: [` + source + `]}`,
		"twice":         `{selector: "copyrator in (true)", namespace: ` + source + `, namespaces: [` + source + `]}`,
	} {
		o := untyped(t, c, name, fields)
		c.Apply(o)
		rule := c.rule(name)
		c.Eventually(rule, testkit.Ready(), synced(2))
		c.Eventually(configMapRef(target, "x"), hasValue("one"))
		c.Delete(rule)
		c.waitGone(rule)
		c.waitGone(configMapRef(target, "x"))
	}
}

// New, changed and deleted sources are followed. Changes that do not affect a copy cause no writes.
func TestSourceChanges(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.namespace("a"), c.namespace("b")
	rule := c.rule("r")
	c.Apply(configMap(c.Namespace, "x", "one"))
	c.Apply(rule)
	c.Eventually(rule, testkit.Ready(), synced(2))
	c.Apply(configMap(c.Namespace, "y", "one"))
	c.Eventually(configMapRef(b, "y"), hasValue("one"))
	c.Eventually(rule, synced(4))
	x := configMapRef(c.Namespace, "x")
	c.expectNoWrites("annotations of a source are not copied", func() {
		c.Update(x, func() { x.Annotations = map[string]string{"a": "b"} })
	})
	c.Update(x, func() { x.Data = map[string]string{"other": "two"}; x.Labels["more"] = "yes" })
	labels := testkit.Match("labels", func(o *corev1.ConfigMap) bool {
		return o.Labels["more"] == "yes" && o.Labels["copyrator"] == "true"
	})
	c.Eventually(configMapRef(a, "x"), hasData(map[string]string{"other": "two"}), labels)
	c.Update(x, func() { x.Labels = nil })
	c.waitGone(configMapRef(a, "x"))
	c.waitGone(configMapRef(b, "x"))
	c.Delete(configMapRef(c.Namespace, "y"))
	c.waitGone(configMapRef(b, "y"))
	c.Eventually(rule, testkit.Ready(), synced(0))
	c.expectNoWritesAfterRestart()
}

// The rule selects the copied entries and labels.
func TestKeysAndLabels(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	target := c.namespace("target")
	source := configMap(c.Namespace, "x", "one")
	source.Data = map[string]string{"a.yaml": "1", "b.yaml": "2", "local.yaml": "3", "c": "4"}
	source.BinaryData = map[string][]byte{"d.yaml": {0xff}, "e": {0xff}}
	source.Labels["helm.sh/chart"], source.Labels["app.kubernetes.io/managed-by"] = "x", "Helm"
	c.Apply(source)
	rule := c.rule("r", func(r *v1.CopyratorRule) {
		r.DataKeys = v1.DataKeys{Include: []string{"*.yaml"}, Exclude: []string{"local.*"}}
		r.CopyLabels.Add = map[string]string{"copied": "yes"}
	})
	c.Apply(rule)
	copied := configMapRef(target, "x")
	c.Eventually(copied, hasData(map[string]string{"a.yaml": "1", "b.yaml": "2"}))
	if diff := cmp.Diff(map[string][]byte{"d.yaml": {0xff}}, copied.BinaryData); diff != "" {
		t.Errorf("binary data (-want +got):\n%s", diff)
	}
	want := map[string]string{
		"copied": "yes", "copyrator": "true", "app.kubernetes.io/managed-by": "copyrator",
		"homeostat.dev/owner-uid": string(rule.UID),
	}
	if diff := cmp.Diff(want, copied.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got := copied.Annotations["copyrator.flant.com/source"]; got != c.Namespace+"/x" {
		t.Errorf("the copy names the source %q", got)
	}
	c.Update(rule, func() { rule.DataKeys = v1.DataKeys{}; rule.CopyLabels.Add = nil })
	c.Eventually(copied, hasData(source.Data))
	if _, ok := copied.Labels["copied"]; ok {
		t.Errorf("the label stays: %v", copied.Labels)
	}
}

// An immutable copy is recreated, or stays and is reported.
func TestImmutable(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	target := c.namespace("target")
	source := configMap(c.Namespace, "x", "one")
	source.Immutable = new(true)
	c.Apply(source)
	rule := c.rule("r", func(r *v1.CopyratorRule) { r.TargetNamespaces = []string{target} })
	c.Apply(rule)
	c.Eventually(configMapRef(target, "x"), hasValue("one"))
	again := func(v string) {
		c.Delete(configMapRef(c.Namespace, "x"))
		source = configMap(c.Namespace, "x", v)
		source.Immutable = new(true)
		c.Apply(source)
	}
	c.Update(rule, func() { rule.OrphanPolicy = v1.OrphanDelete; rule.ImmutableStrategy = v1.ImmutableFail })
	c.Eventually(rule, synced(1))
	c.Update(source, func() { source.Labels["more"] = "yes" })
	label := testkit.Match("label", func(o *corev1.ConfigMap) bool { return o.Labels["more"] == "yes" })
	c.Eventually(configMapRef(target, "x"), label)
	c.Update(rule, func() { rule.ImmutableStrategy = v1.ImmutableRecreate })
	again("two")
	c.Eventually(configMapRef(target, "x"), hasValue("two"))
	c.Eventually(rule, testkit.Ready(), synced(1))

	// A second version while the copy must not be replaced: the first version stays.
	c.Update(rule, func() { rule.ImmutableStrategy = v1.ImmutableFail; rule.OrphanPolicy = v1.OrphanKeep })
	c.op.Stop()
	again("three")
	c.start()
	c.Eventually(rule, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ImmutableField"),
		testkit.Match("failure", func(r *v1.CopyratorRule) bool {
			return r.Status.Failed == 1 && len(r.Status.Failures) == 1 && r.Status.Failures[0].Namespace == target
		}))
	c.Eventually(configMapRef(target, "x"), hasValue("two"))
}

// Kept copies have no owner.
func TestOrphansCanBeKept(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.namespace("a"), c.namespace("b")
	c.Apply(configMap(c.Namespace, "x", "one"))
	rule := c.rule("r", func(r *v1.CopyratorRule) { r.OrphanPolicy = v1.OrphanKeep })
	c.Apply(rule)
	c.Eventually(rule, synced(2))
	c.Update(rule, func() { rule.ExcludeNamespaces = []string{a} })
	c.Eventually(rule, synced(1))
	c.Eventually(configMapRef(a, "x"), hasValue("one"), unowned())
	c.Delete(rule)
	c.waitGone(rule)
	c.Eventually(configMapRef(b, "x"), hasValue("one"), unowned())
	c.expectNoWrites("what is kept is left alone", func() {
		kept := configMapRef(b, "x")
		c.Update(kept, func() { kept.Data["key"] = "theirs" })
	})
}

func unowned() testkit.Check {
	return testkit.Match("unowned", func(o *corev1.ConfigMap) bool { return o.Labels["homeostat.dev/owner-uid"] == "" })
}

// A suspended rule does not change its copies. A dry run reports the planned writes.
func TestSuspendAndDryRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	target := c.namespace("target")
	c.Apply(configMap(c.Namespace, "x", "one"))
	rule := c.rule("r", func(r *v1.CopyratorRule) { r.DryRun = true })
	c.Apply(rule)
	c.Eventually(rule, testkit.Condition("DryRun", metav1.ConditionTrue))
	if message := conditions.Get(rule, "DryRun").Message; !strings.Contains(message, "create ConfigMap "+target+"/x") {
		t.Errorf("the dry run says %q", message)
	}
	c.waitGone(configMapRef(target, "x"))
	c.Update(rule, func() { rule.DryRun = false })
	c.Eventually(configMapRef(target, "x"), hasValue("one"))
	c.Update(rule, func() { rule.Suspend = true })
	c.Eventually(rule, testkit.Condition("Paused", metav1.ConditionTrue))
	source := configMapRef(c.Namespace, "x")
	c.expectNoWrites("it is suspended", func() { c.Update(source, func() { source.Data["key"] = "two" }) })
	c.Eventually(configMapRef(target, "x"), hasValue("one"))
	c.Update(rule, func() { rule.Suspend = false })
	c.Eventually(configMapRef(target, "x"), hasValue("two"))
}

// A suspended or dry-run rule can be deleted without resuming it.
func TestSuspendedRuleCanBeDeleted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	target := c.namespace("target")
	c.Apply(configMap(c.Namespace, "x", "one"))
	for condition, change := range map[string]func(*v1.CopyratorRule){
		"Paused": func(r *v1.CopyratorRule) { r.Suspend = true },
		"DryRun": func(r *v1.CopyratorRule) { r.DryRun = true },
	} {
		rule := c.rule(strings.ToLower(condition))
		c.Apply(rule)
		c.Eventually(rule, testkit.Ready(), synced(1), testkit.Condition(v1.ConditionSynced, metav1.ConditionTrue))
		c.Update(rule, func() { change(rule) })
		c.Eventually(rule, testkit.Condition(condition, metav1.ConditionTrue))
		c.Delete(rule)
		c.waitGone(rule)
		c.waitGone(configMapRef(target, "x"))
	}
}

// The targets are the namespaces selected by the rule, without excluded and denying ones.
func TestTargets(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(o *copyrator.Options) { o.ExcludeNamespaces = []string{"default", "*-ex"} })
	team := func(n *corev1.Namespace) { n.Labels["team"] = "a" }
	a, excluded := c.namespace("a", team), c.namespace("b-ex", team)
	denied := c.namespace("denied", team, annotated("copyrator.flant.com/deny", "true"))
	other := c.namespace("other")
	c.Apply(configMap(c.Namespace, "x", "one"))
	rule := c.rule("r", func(r *v1.CopyratorRule) {
		r.TargetNamespaces = nil
		r.TargetNamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a", "of": c.Namespace}}
	})
	c.Apply(rule)
	c.Eventually(rule, testkit.Ready(), synced(1)) // the operator's exclusions apply to all rules
	c.waitGone(configMapRef(excluded, "x"))
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}
	c.Update(n, func() { n.Labels["team"] = "a" })
	c.Eventually(configMapRef(other, "x"), hasValue("one"))
	c.Update(n, func() { delete(n.Labels, "team") })
	c.waitGone(configMapRef(other, "x"))
	d := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: denied}}
	c.Update(d, func() { delete(d.Annotations, "copyrator.flant.com/deny") })
	c.Eventually(configMapRef(denied, "x"), hasValue("one"))
	c.Update(rule, func() {
		rule.ExcludeNamespaces = []string{"*-a", "*-denied"}
		rule.TargetNamespaces = []string{excluded}
	})
	c.Eventually(rule, synced(0))
	c.waitGone(configMapRef(a, "x"))
	c.waitGone(configMapRef(denied, "x"))
}

// Secrets with another meaning in another namespace are never copied; others keep their type.
func TestSecrets(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	target := c.namespace("target")
	pull := secret(c.Namespace, "pull", "")
	pull.Type = corev1.SecretTypeDockerConfigJson
	pull.Data = map[string][]byte{".dockerconfigjson": []byte(`{"auths":{}}`)}
	release := secret(c.Namespace, "release", "state")
	release.Type = "helm.sh/release.v1"
	c.Apply(pull)
	c.Apply(release)
	rule := c.rule("r", func(r *v1.CopyratorRule) { r.RuleType = "secret" })
	c.Apply(rule)
	copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: target, Name: "pull"}}
	c.Eventually(copied, testkit.Match("type and data", func(s *corev1.Secret) bool {
		return s.Type == pull.Type && cmp.Equal(s.Data, pull.Data)
	}))
	c.Eventually(rule, synced(1), testkit.Match("the other is reported", func(r *v1.CopyratorRule) bool {
		return len(r.Status.Failures) == 1 && r.Status.Failures[0].Name == "release" && r.Status.Failures[0].Reason == "NotCopied"
	}))
	c.waitGone(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: target, Name: "release"}})
	if err := c.Client.Patch(t.Context(), copied, client.RawPatch(types.MergePatchType,
		[]byte(`{"data":{".dockerconfigjson":"e30=","more":"e30="}}`))); err != nil {
		t.Fatal(err)
	}
	c.Eventually(copied, testkit.Match("restored", func(s *corev1.Secret) bool { return cmp.Equal(s.Data, pull.Data) }))
	c.expectNoWritesAfterRestart()
}

// A source that is never copied is reported once, also if an earlier rule selects it too.
func TestNeverCopiedByTwoRules(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.namespace("a"), c.namespace("b")
	release := secret(c.Namespace, "release", "state")
	release.Type = "helm.sh/release.v1"
	c.Apply(release)
	older := c.rule("older", func(r *v1.CopyratorRule) {
		r.RuleType = "secret"
		r.TargetNamespaces = []string{a}
	})
	c.Apply(older)
	c.waitForLaterSecond(older)
	younger := c.rule("younger", func(r *v1.CopyratorRule) {
		r.RuleType = "secret"
		r.TargetNamespaces = []string{a, b}
	})
	c.Apply(younger)
	for _, r := range []*v1.CopyratorRule{older, younger} {
		c.Eventually(r, synced(0), testkit.Match("reported once", func(r *v1.CopyratorRule) bool {
			return onlyFailure(r, c.Namespace, "release", "never copied")
		}))
	}
}

// Mistakes in a rule are reported in its status, and a corrected rule works.
func TestInvalidRules(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(o *copyrator.Options) { o.Secrets = false })
	target := c.namespace("target")
	c.Apply(configMap(c.Namespace, "x", "one"))
	for name, tc := range map[string]struct{ fields, reason, says string }{
		"selector-number": {`{selector: 5}`, "InvalidRule", "write a map of labels"},
		"selector-empty":  {`{selector: {}}`, "InvalidRule", "would copy everything"},
		"selector-blank":  {`{selector: ""}`, "InvalidRule", "would copy everything"},
		"selector-bad":    {`{selector: "a in"}`, "InvalidRule", "selector: "},
		"selector-value":  {`{selector: {a: "not a value"}}`, "InvalidRule", "selector: "},
		"namespace-bad":   {`{selector: {a: b}, namespace: "not a name"}`, "InvalidRule", "cannot exist"},
		"namespace-map":   {`{selector: {a: b}, namespace: {a: b}}`, "InvalidRule", "write the name of a namespace"},
		"pattern":         {`{selector: {a: b}, dataKeys: {include: ["["]}}`, "InvalidRule", "is no pattern"},
		"labels": {
			`{selector: {a: b}, targetNamespaceSelector: {matchLabels: {a: "not a value"}}}`,
			"InvalidRule", "targetNamespaceSelector",
		},
		"label-key":   {`{selector: {a: b}, labels: {add: {"a b": c}}}`, "InvalidRule", `labels.add: a b="c" is no label`},
		"label-value": {`{selector: {a: b}, labels: {add: {a: "b c"}}}`, "InvalidRule", `labels.add: a="b c" is no label`},
		"secrets":     {`{selector: {a: b}, ruleType: secret}`, "SecretsDisabled", "--secrets"},
	} {
		o := untyped(t, c, name, tc.fields)
		c.Apply(o)
		rule := c.rule(name)
		c.Eventually(rule, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, tc.reason))
		if message := conditions.Get(rule, conditions.Stalled).Message; !strings.Contains(message, tc.says) {
			t.Errorf("%s: the message is %q, want %q in it", name, message, tc.says)
		}
	}
	rule := c.rule("selector-number")
	c.Update(rule, func() { rule.Selector = v1.Selector{Text: "copyrator=true"}; rule.TargetNamespaces = []string{target} })
	c.Eventually(rule, testkit.Ready(), synced(1))
	c.Eventually(configMapRef(target, "x"), hasValue("one"))
}
