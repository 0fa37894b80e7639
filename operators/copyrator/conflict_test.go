package copyrator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/copyrator"
	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// untyped returns a rule as a client without the Go types writes it.
func untyped(t *testing.T, c *cluster, name, fields string) *unstructured.Unstructured {
	t.Helper()
	o := map[string]any{"ruleType": "configmap", "targetNamespaces": []any{c.Namespace + "*"}}
	if err := yaml.Unmarshal([]byte(fields), &o); err != nil {
		t.Fatal(err)
	}
	o["apiVersion"], o["kind"] = v1.GroupVersion.String(), "CopyratorRule"
	o["metadata"] = map[string]any{"name": c.Namespace + "-" + name, "namespace": c.Namespace}
	return &unstructured.Unstructured{Object: o}
}

// onlyFailure reports whether the only failure in the status is about that object and has the text.
func onlyFailure(r *v1.CopyratorRule, namespace, name, says string) bool {
	f := r.Status.Failures
	return len(f) == 1 && f[0].Namespace == namespace && f[0].Name == name && strings.Contains(f[0].Message, says)
}

// A foreign object is left alone and reported, and copied over when it is deleted. Changes of a copy are undone.
func TestForeignObject(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	target, other := c.namespace("target"), c.namespace("other")
	c.Apply(configMap(c.Namespace, "x", "ours"))
	c.Apply(configMap(target, "x", "theirs"))
	rule := c.rule("r")
	c.Apply(rule)
	c.Eventually(rule, conflicts(1), testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Conflict"),
		testkit.Condition(v1.ConditionSynced, metav1.ConditionFalse),
		testkit.Condition(v1.ConditionConflicts, metav1.ConditionTrue), testkit.Match("failure", func(r *v1.CopyratorRule) bool {
			return onlyFailure(r, target, "x", "delete it, or use another name")
		}))
	c.Eventually(configMapRef(other, "x"), hasValue("ours"))
	c.Eventually(configMapRef(target, "x"), hasValue("theirs"))
	source := configMapRef(c.Namespace, "x")
	c.Update(source, func() { source.Data["key"] = "ours again" })
	c.Eventually(configMapRef(other, "x"), hasValue("ours again"))
	c.Eventually(configMapRef(target, "x"), hasValue("theirs"))

	began := time.Now()
	c.Delete(configMapRef(target, "x"))
	c.Eventually(configMapRef(target, "x"), hasValue("ours again"))
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v to replace the deleted object", d)
	}
	c.Eventually(rule, testkit.Ready(), synced(2), conflicts(0))

	copied := configMapRef(target, "x")
	c.Update(copied, func() { copied.Data["key"] = "edited by hand" })
	c.Eventually(copied, hasValue("ours again"))
	c.Update(copied, func() { copied.Data["more"] = "added by hand" })
	c.Eventually(copied, hasValue("ours again"))
	c.Update(copied, func() { copied.Data = nil; copied.BinaryData = map[string][]byte{"a": {1}} })
	c.Eventually(copied, hasValue("ours again"), testkit.Match("nothing binary", func(o *corev1.ConfigMap) bool {
		return len(o.BinaryData) == 0
	}))
	c.Update(copied, func() { copied.Labels = nil })
	c.Eventually(copied, hasValue("ours again"), testkit.Match("labels", func(o *corev1.ConfigMap) bool {
		return o.Labels["copyrator"] == "true" && o.Labels["homeostat.dev/owner-uid"] == string(rule.UID)
	}))
	c.Delete(copied)
	c.Eventually(configMapRef(target, "x"), hasValue("ours again"))
	c.Eventually(rule, testkit.Ready(), synced(2))
	c.expectNoWritesAfterRestart()
}

// Existing objects are adopted according to the conflict policy, except copies of other rules and objects with a
// controller.
func TestConflictPolicies(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	same, differs, controlled := c.namespace("same"), c.namespace("differs"), c.namespace("controlled")
	c.Apply(configMap(c.Namespace, "x", "ours"))
	c.Apply(configMap(same, "x", "ours"))
	theirs := configMap(differs, "x", "theirs")
	theirs.Data["more"] = "theirs"
	c.Apply(theirs)
	owner := configMapRef(controlled, "owner")
	c.Apply(owner)
	held := configMap(controlled, "x", "theirs")
	held.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true),
	}}
	c.Apply(held)
	rule := c.rule("r", func(r *v1.CopyratorRule) { r.ConflictPolicy = v1.ConflictAdopt })
	c.Apply(rule)
	c.Eventually(rule, conflicts(2), testkit.Match("one", func(r *v1.CopyratorRule) bool { return r.Status.Synced == 1 }))
	c.Eventually(configMapRef(differs, "x"), hasData(theirs.Data))
	c.Update(rule, func() { rule.ConflictPolicy = v1.ConflictOverwrite })
	c.Eventually(rule, conflicts(1), testkit.Match("two", func(r *v1.CopyratorRule) bool { return r.Status.Synced == 2 }))
	c.Eventually(configMapRef(differs, "x"), hasValue("ours"))
	c.Eventually(configMapRef(controlled, "x"), hasValue("theirs"))
	c.expectNoWritesAfterRestart()
}

// Source namespaces that are also targets, and copies with the labels of sources: nothing is copied twice, nothing flaps,
// and of two sources of one name the older one is copied.
func TestLoop(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b, target := c.namespace("a"), c.namespace("b"), c.namespace("target")
	c.Apply(configMap(a, "x", "a's"))
	c.Apply(configMap(a, "only-a", "a's"))
	c.Apply(configMap(b, "only-b", "b's"))
	older := configMapRef(a, "x")
	c.waitForLaterSecond(older)
	c.Apply(configMap(b, "x", "b's"))
	rule := c.rule("r", func(r *v1.CopyratorRule) { r.SourceNamespace.List = []string{b, a} })
	c.Apply(rule)
	// x is copied to the test's namespace and target, only-a also to b, only-b also to a.
	c.Eventually(rule, testkit.Match("8 copies", func(r *v1.CopyratorRule) bool {
		return r.Status.Desired == 8 && r.Status.Synced == 8 && r.Status.MatchedSources == 4
	}), conflicts(1), testkit.Match("the shadowed source is reported", func(r *v1.CopyratorRule) bool {
		return onlyFailure(r, b, "x", a+"/x")
	}))
	c.Eventually(configMapRef(target, "x"), hasValue("a's"))
	c.Eventually(configMapRef(b, "x"), hasValue("b's"))
	c.Eventually(configMapRef(b, "only-a"), hasValue("a's"))
	c.Eventually(configMapRef(a, "only-b"), hasValue("b's"))
	c.expectNoWritesAfterRestart()
	c.expectNoWrites("nothing flaps", func() { <-time.After(3 * time.Second) })
	c.Delete(configMapRef(a, "x"))
	c.Eventually(configMapRef(target, "x"), hasValue("b's"))
	c.Eventually(configMapRef(a, "x"), hasValue("b's"))
	c.Eventually(rule, testkit.Ready(), conflicts(0), synced(9))
}

// New namespaces get their copies, relabelled ones lose them, and terminating ones get none. The test has a control plane
// of its own and runs alone. With -short there are fewer namespaces.
func TestNewNamespaceRelabelTerminate(t *testing.T) {
	sources, namespaces := 30, 500
	if testing.Short() {
		sources, namespaces = 5, 40
	}
	out, going := namespaces/5, namespaces/10
	c := clusterOn(t, testkit.New(t, testkit.Private()))
	c.Timeout = 10 * time.Minute
	rule := c.rule("r", func(r *v1.CopyratorRule) {
		r.TargetNamespaces = nil
		r.TargetNamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": c.Namespace, "in": "yes"}}
	})
	c.Apply(rule)
	for i := range sources {
		c.Apply(configMap(c.Namespace, fmt.Sprintf("source-%02d", i), "one"))
	}
	began := time.Now()
	names := make([]string, namespaces)
	var all sync.WaitGroup
	lanes := make(chan struct{}, 16)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%03d", c.Namespace, i)
		all.Go(func() {
			lanes <- struct{}{}
			defer func() { <-lanes }()
			n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: names[i], Labels: map[string]string{"of": c.Namespace, "in": "yes"}, Finalizers: []string{"example.com/hold"},
			}}
			if err := c.Client.Create(t.Context(), n); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c.Eventually(rule, testkit.Ready(), synced(int32(sources*namespaces)))
	t.Logf("%d copies after %v", sources*namespaces, time.Since(began).Round(time.Second))
	began = time.Now()
	for i, name := range names[:out+going] {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if i < out {
			c.Update(n, func() { delete(n.Labels, "in") })
		} else {
			c.Delete(n)
		}
	}
	kept := namespaces - out - going
	c.Eventually(rule, testkit.Ready(), synced(int32(sources*kept)))
	t.Logf("%d copies less after %v", sources*(out+going), time.Since(began).Round(time.Second))
	c.Wait("exactly the expected copies", func(ctx context.Context) error {
		list := &corev1.ConfigMapList{}
		if err := c.Client.List(ctx, list, client.MatchingLabels{"homeostat.dev/owner-uid": string(rule.UID)}); err != nil {
			return err
		}
		for _, o := range list.Items {
			if i := strings.TrimPrefix(o.Namespace, c.Namespace+"-"); i < fmt.Sprintf("%03d", out+going) {
				return fmt.Errorf("%s/%s is still there", o.Namespace, o.Name)
			}
		}
		if len(list.Items) != sources*kept {
			return fmt.Errorf("%d of %d", len(list.Items), sources*kept)
		}
		return nil
	})
	c.expectNoWrites("all is done", func() { <-time.After(2 * time.Second) })
	c.expectNoWritesAfterRestart()
}

// inNamespaces restricts the operator to some namespaces.
type inNamespaces struct {
	testkit.Runnable

	namespaces []string
}

// SetupInNamespaces implements testkit.Runnable.
func (o inNamespaces) SetupInNamespaces(mgr manager.Manager, namespaces ...string) error {
	return o.Runnable.SetupInNamespaces(mgr, append(namespaces, o.namespaces...)...)
}

// A watched namespace that does not exist is reported and does not block the others. It gets its copies when it is
// created, also after a deletion. No event announces the namespace to the operator.
func TestWatchedNamespaceIsMissing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.op.Stop()
	good, missing := c.namespace("good"), c.Namespace+"-a-missing"
	watched := inNamespaces{copyrator.New(c.options), []string{c.Namespace, good, missing}}
	c.op = c.Run(watched, testkit.ClusterWide())
	for i := range 5 {
		c.Apply(configMap(c.Namespace, fmt.Sprintf("x-%d", i), "one"))
	}
	rule := c.rule("r")
	c.Apply(rule)
	c.Eventually(rule, testkit.Match("5 of 10", func(r *v1.CopyratorRule) bool {
		return r.Status.Synced == 5 && r.Status.Failed == 5 && r.Status.Failures[0].Reason == "NamespaceNotFound"
	}))
	last := configMapRef(c.Namespace, "x-4")
	c.Update(last, func() { last.Data["key"] = "two" })
	c.Eventually(configMapRef(good, "x-4"), hasValue("two"))
	for range 2 {
		c.namespace("a-missing")
		c.Eventually(configMapRef(missing, "x-4"), hasValue("two"))
		c.Eventually(rule, testkit.Ready(), synced(10))
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: missing}}
		c.Delete(n)
		c.waitGone(n)
	}
}

// A failing admission webhook affects the copies in its own namespaces only.
func TestFailingWebhook(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	good := c.namespace("good")
	guarded := map[string]string{"guarded": c.Namespace}
	for _, name := range []string{"a", "b"} {
		c.namespace(name, func(n *corev1.Namespace) { n.Labels = guarded })
	}
	hook := c.addFailingWebhook(c.Namespace+"-a", guarded)
	for i := range 6 {
		c.Apply(configMap(c.Namespace, fmt.Sprintf("x-%d", i), "one"))
	}
	rule := c.rule("r")
	c.Apply(rule)
	c.Eventually(configMapRef(good, "x-5"), hasValue("one"))
	c.Eventually(rule, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Retrying"))
	last := configMapRef(c.Namespace, "x-5")
	c.Update(last, func() { last.Data["key"] = "two" })
	c.Eventually(configMapRef(good, "x-5"), hasValue("two"))
	c.Delete(hook)
	c.Eventually(rule, testkit.Ready(), synced(18))
}

// A revoked permission and a deleted source remove copies, also while other writes fail.
func TestPruningDuringFailingWebhook(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	good, bad := c.namespace("good"), c.namespace("bad")
	source := configMap(c.Namespace, "x", "one")
	c.Apply(source)
	c.Apply(configMap(c.Namespace, "y", "one"))
	rule := c.rule("r")
	c.Apply(rule)
	c.Eventually(rule, testkit.Ready(), synced(4))
	hook := c.addFailingWebhook(bad, map[string]string{"kubernetes.io/metadata.name": bad})
	c.Update(source, func() { source.Data["key"] = "two" })
	c.Eventually(rule, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Retrying"))
	c.Delete(configMapRef(c.Namespace, "y"))
	c.waitGone(configMapRef(good, "y"))
	c.Delete(hook)
	c.waitGone(configMapRef(bad, "y"))
	c.Eventually(rule, testkit.Ready(), synced(2))
}

// addFailingWebhook adds an admission webhook that never answers, for ConfigMaps in the namespaces with these labels.
// namespace is one of them.
func (c *cluster) addFailingWebhook(
	namespace string, labels map[string]string,
) *admissionregistrationv1.ValidatingWebhookConfiguration {
	c.t.Helper()
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: c.Namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "down.example.com", AdmissionReviewVersions: []string{"v1"},
			SideEffects:       new(admissionregistrationv1.SideEffectClassNone),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: labels},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{
					admissionregistrationv1.Create, admissionregistrationv1.Update,
				},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
				},
			}},
		}},
	}
	c.Apply(hook)
	c.t.Cleanup(func() { _ = c.Client.Delete(context.WithoutCancel(c.Context()), hook) })
	c.Wait("the webhook to be asked", func(ctx context.Context) error {
		err := c.Client.Create(ctx, configMap(namespace, "probe", ""), client.DryRunAll)
		if err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	return hook
}

// S16: an object that a rule has taken over is not deleted when the rule stops to copy to it or is deleted: it loses the
// marks of a copy. Copies that the rule created are deleted.
func TestTakenOverObjectIsHandedBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	pruned, kept, made := c.namespace("pruned"), c.namespace("kept"), c.namespace("made")
	from := c.namespace("from")
	c.Apply(configMap(from, "x", "ours"))
	for _, namespace := range []string{pruned, kept, c.Namespace} {
		theirs := configMap(namespace, "x", "theirs")
		theirs.Labels = map[string]string{"theirs": "yes"}
		c.Apply(theirs)
	}
	rule := c.rule("r", func(r *v1.CopyratorRule) {
		r.Namespaces = []string{from}
		r.ConflictPolicy = v1.ConflictOverwrite
	})
	c.Apply(rule)
	c.Eventually(rule, testkit.Ready(), synced(4))
	c.Update(rule, func() { rule.ConflictPolicy = v1.ConflictSkip }) // what was taken over stays so
	c.expectNoWritesAfterRestart()
	back := testkit.Match("without marks", func(o *corev1.ConfigMap) bool {
		return o.Labels["theirs"] == "yes" && o.Labels["homeostat.dev/owner-uid"] == "" && len(o.OwnerReferences) == 0 &&
			o.Labels["app.kubernetes.io/managed-by"] == "" && len(o.Annotations) == 0 && o.DeletionTimestamp == nil
	})
	c.Update(rule, func() { rule.ExcludeNamespaces = []string{pruned} })
	c.Eventually(configMapRef(pruned, "x"), hasValue("ours"), back)
	c.Eventually(rule, testkit.Ready(), synced(3))
	c.Delete(rule)
	c.waitGone(rule)
	c.waitGone(configMapRef(made, "x"))
	for _, namespace := range []string{kept, c.Namespace} {
		c.Eventually(configMapRef(namespace, "x"), hasValue("ours"), back)
	}
}
