package gc_test

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
)

func TestLateCustomResource(t *testing.T) {
	t.Parallel()
	for name, scope := range map[string]apiextensionsv1.ResourceScope{
		"Namespaced":  apiextensionsv1.NamespaceScoped,
		"ClusterWide": apiextensionsv1.ClusterScoped,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			gvk := install(t, definition(word(), scope))
			namespace := ns.Name
			if scope == apiextensionsv1.ClusterScoped {
				namespace = ""
			}
			// No pause: the kind has existed for milliseconds.
			owner := newCustom(t, gvk, namespace, ns.Name)
			child := newConfigMap(t, ns, "child", ownedBy(owner))
			grandchild := newConfigMap(t, ns, "grandchild", ownedBy(child))
			began := time.Now()
			deleteObject(t, owner, background)
			eventually(t, gone(t, owner, child, grandchild))
			t.Logf("the children of a new kind were gone after %v", time.Since(began))
			second := newCustom(t, gvk, namespace, ns.Name+"-2")
			held := newConfigMap(t, ns, "held", ownedBy(second), blocking, held)
			deleteObject(t, second, foreground)
			eventually(t, deleting(t, second, held))
			release(t, held)
			eventually(t, gone(t, second, held))
		})
	}
}

// The watch of a kind starts a moment after the kind is served. It reports no event for an owner deleted before.
func TestOwnerWithoutEvents(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd := definition(word(), apiextensionsv1.NamespaceScoped)
	kind := late.add(crd.Spec.Names.Plural, ns.Name)
	gvk := install(t, crd)
	owner := newCustom(t, gvk, ns.Name, "owner")
	child := newConfigMap(t, ns, "child", ownedBy(owner))
	closed(t, kind.requested, "the collector should request the owner, which exists")
	always(t, kept(t, child))
	deleteObject(t, owner, background)
	eventually(t, gone(t, owner))
	late.lift(crd.Spec.Names.Plural)
	eventually(t, gone(t, child))
}

// Another storage version needs another watch. Neither reports an owner that is deleted between the two.
func TestOwnerDeletedBetweenTwoWatches(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd := definition(word(), apiextensionsv1.NamespaceScoped)
	gvk := install(t, crd)
	owner := newCustom(t, gvk, ns.Name, "owner")
	other := newCustom(t, gvk, ns.Name, "other")
	child := newConfigMap(t, ns, "child", ownedBy(owner))
	others := newConfigMap(t, ns, "kept", ownedBy(other))
	always(t, kept(t, child, others)) // the graph has the owners
	kind := late.add(crd.Spec.Names.Plural, ns.Name)
	second := crd.Spec.Versions[0].DeepCopy()
	second.Name = "v2"
	crd.Spec.Versions[0].Storage = false
	crd.Spec.Versions = append(crd.Spec.Versions, *second)
	must(t, api.Update(t.Context(), crd))
	closed(t, kind.listed, "the collector should know the other version")
	deleteObject(t, owner, background)
	eventually(t, gone(t, owner))
	late.lift(crd.Spec.Names.Plural)
	eventually(t, gone(t, child))
	always(t, kept(t, others))
	deleteObject(t, other, background)
	eventually(t, gone(t, others))
}

// The watches of owner and dependent are independent: the deletion of the owner may be observed first.
func TestDependentWithoutEvents(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd := definition(word(), apiextensionsv1.NamespaceScoped)
	kind := late.add(crd.Spec.Names.Plural, ns.Name)
	gvk := install(t, crd)
	closed(t, kind.listed, "the collector should know the kind")
	owner := newConfigMap(t, ns, "owner")
	dependent := newCustom(t, gvk, ns.Name, "dependent", ownedBy(owner), blocking, held)
	deleteObject(t, owner, foreground)
	always(t, deleting(t, owner))
	late.lift(crd.Spec.Names.Plural)
	eventually(t, deleting(t, owner, dependent))
	release(t, dependent)
	eventually(t, gone(t, owner, dependent))
}

func TestCustomResourceDefinitionDeleted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd := definition(word(), apiextensionsv1.NamespaceScoped)
	gvk := install(t, crd)
	owner := newCustom(t, gvk, ns.Name, "owner")
	child := newConfigMap(t, ns, "child", ownedBy(owner))
	always(t, kept(t, child))
	must(t, api.Delete(t.Context(), crd))
	eventually(t, gone(t, child))
	eventually(t, gone(t, crd))

	// The same kind again, as if a second test installed it.
	install(t, definition(crd.Spec.Names.Plural[:len(crd.Spec.Names.Plural)-1], apiextensionsv1.NamespaceScoped))
	owner = newCustom(t, gvk, ns.Name, "owner")
	child = newConfigMap(t, ns, "child", ownedBy(owner))
	always(t, kept(t, child))
	deleteObject(t, owner, background)
	eventually(t, gone(t, child))
}

// install returns when the kind is served.
func install(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionKind {
	t.Helper()
	u, err := manifest.FromObject(crd, api.Scheme())
	must(t, err)
	must(t, manifest.Install(t.Context(), config, []*unstructured.Unstructured{u}))
	must(t, api.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
	return schema.GroupVersionKind{Group: crd.Spec.Group, Version: "v1", Kind: crd.Spec.Names.Kind}
}
