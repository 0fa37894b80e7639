package function_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/sdk/function"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// tenants declares an operator of a cluster-scoped kind: each Tenant has a Namespace of the same name with a ConfigMap.
//
// Its tests are not parallel. An operator in this process reconciles the objects of all tests.
var tenants = function.Config{
	Version: 1, Name: "tenants", Kind: function.Kind{APIVersion: "function.homeostat.dev/v1", Kind: "Tenant"},
	Owns: []function.OwnedKind{
		{Kind: function.Kind{APIVersion: "v1", Kind: "Namespace"}}, {Kind: function.Kind{APIVersion: "v1", Kind: "ConfigMap"}},
	},
	References: []function.Kind{{APIVersion: "v1", Kind: "Secret"}},
}

func tenant(name string, spec map[string]any) *unstructured.Unstructured {
	o := object(tenants.Kind.APIVersion, tenants.Kind.Kind, name, map[string]any{"spec": spec})
	return &o
}

// reconcileTenant is the function of the operator tenants.
func reconcileTenant(req *function.Request, a *function.Answer) {
	o := unstructured.Unstructured{Object: req.Object}
	field := func(name string) string {
		text, _, _ := unstructured.NestedString(req.Object, "spec", name)
		return text
	}
	text := field("text")
	if field("secretName") != "" {
		a.References = []function.Reference{
			{APIVersion: "v1", Kind: "Secret", Namespace: field("secretNamespace"), Name: field("secretName")},
		}
		if len(req.References) == 0 || len(req.References[0].Objects) == 0 {
			a.Wait = &function.Problem{Reason: "ReferenceNotFound", Message: "the Secret does not exist"}
			return
		}
		text, _, _ = unstructured.NestedString(req.References[0].Objects[0], "data", "text")
	}
	namespace := object("v1", "Namespace", o.GetName(), nil)
	settings := object("v1", "ConfigMap", "settings", map[string]any{"data": map[string]any{"text": text}})
	settings.SetNamespace(o.GetName())
	if missing, _, _ := unstructured.NestedBool(req.Object, "spec", "childWithoutNamespace"); missing {
		settings.SetNamespace("")
	}
	a.Children = []function.Child{
		{Object: namespace},
		{Object: settings, AfterCreated: []function.ChildName{{APIVersion: "v1", Kind: "Namespace", Name: o.GetName()}}},
	}
	a.Status = map[string]any{"namespacePhase": nil}
	for _, child := range req.Children {
		if (&unstructured.Unstructured{Object: child}).GetKind() == "Namespace" {
			a.Status["namespacePhase"], _, _ = unstructured.NestedFieldNoCopy(child, "status", "phase")
		}
	}
}

// A cluster-scoped object has a Namespace and a child in it, and refers to an object in another namespace.
func TestClusterScope(t *testing.T) {
	k := testkit.New(t)
	k.Run(&function.Operator{Config: tenants, Function: process(t), PurityChecks: 1}, testkit.ClusterWide())
	a := tenant("a-"+k.Namespace, map[string]any{"text": "hello"})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.GetName()}}
	settings := configMap("settings")
	settings.Namespace = a.GetName()

	k.Apply(a)
	k.Eventually(a, testkit.Ready(), testkit.Match("the status has the phase", func(o *unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(o.Object, "status", "namespacePhase")
		return phase == string(corev1.NamespaceActive)
	}))
	k.Eventually(settings, text("hello"))
	if !metav1.IsControlledBy(settings, a) {
		t.Errorf("the owners of the ConfigMap are %v", settings.OwnerReferences)
	}
	k.Update(settings, func() { settings.Data["text"] = "changed by hand" })
	k.Eventually(settings, text("hello"))

	k.Apply(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"text": []byte("a")}})
	k.Update(a, func() {
		a.Object["spec"] = map[string]any{"secretName": "s", "secretNamespace": k.Namespace}
	})
	k.Eventually(settings, text("YQ=="))
	k.Delete(a)
	k.Eventually(a, testkit.Gone())
	k.Eventually(settings, testkit.Gone())
	k.Eventually(namespace, testkit.Gone())
}

// The parent of a child or of a reference is in no namespace that they could be in by default.
func TestNamespaceMissing(t *testing.T) {
	k := testkit.New(t)
	k.Run(&function.Operator{Config: tenants, Function: process(t), PurityChecks: 1}, testkit.ClusterWide())
	for what, spec := range map[string]map[string]any{
		"children[1]: ConfigMap settings": {"text": "hello", "childWithoutNamespace": true},
		"Secret s":                        {"secretName": "s"},
	} {
		o := tenant(strings.ToLower(strings.Fields(what)[1])+"-"+k.Namespace, spec)
		k.Apply(o)
		want := what + " has no namespace, and no default, because its parent is cluster-scoped: set metadata.namespace"
		k.Eventually(o, testkit.Reason("Ready", metav1.ConditionFalse, function.ReasonInvalidAnswer), hasMessage(want))
		k.Update(o, func() { o.Object["spec"] = map[string]any{"text": "hello"} })
		k.Eventually(o, testkit.Ready())
	}
}

// hasMessage returns a check of the message of the Ready condition.
func hasMessage(want string) testkit.Check {
	return testkit.Match("the message ends with: "+want, func(o *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Ready" {
				message, _ := c["message"].(string)
				return strings.HasSuffix(message, want)
			}
		}
		return false
	})
}

func TestFaultsOfClusterScopedKind(t *testing.T) {
	chaos.Sweep(t, &function.Operator{Config: tenants, Function: process(t)}, chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) { k.Apply(tenant("a-"+k.Namespace, map[string]any{"text": "hello"})) }},
		{Name: "change", Do: func(k *testkit.K) { k.Apply(tenant("a-"+k.Namespace, map[string]any{"text": "bye"})) }},
		{Name: "delete", Do: func(k *testkit.K) { k.Delete(tenant("a-"+k.Namespace, nil)) }},
	}, chaos.All, chaos.WithStartOptions(testkit.ClusterWide()))
}
