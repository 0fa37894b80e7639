package v1_test

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/testkit"
)

// objectCount is the number of objects that live through an upgrade.
const objectCount = 5

// populate creates the objects and waits until they are Ready.
func (i *installation) populate() []*unstructured.Unstructured {
	i.t.Helper()
	var all []*unstructured.Unstructured
	for n := range objectCount {
		o := i.sample(fmt.Sprintf("live-%d", n))
		i.k.Apply(o)
		all = append(all, o)
	}
	i.waitReady(all)
	return all
}

// probePrefix begins the names of objects that show that an operator works.
const probePrefix = "probe-"

// checkWorks waits until the operator runs with the Deployment that OLM created, and has reconciled an object. Until then,
// another pod may still have the lease.
func (i *installation) checkWorks(version string) {
	i.t.Helper()
	i.k.Eventually(i.workload(version), testkit.Ready())
	o := i.sample(probePrefix + strings.ReplaceAll(version, ".", "-"))
	i.k.Apply(o)
	i.waitReady([]*unstructured.Unstructured{o})
	i.k.Delete(o)
	i.k.Eventually(o, testkit.Gone())
}

// waitReady waits until the operator has observed the current generation of all objects, and they are Ready.
func (i *installation) waitReady(all []*unstructured.Unstructured) {
	i.t.Helper()
	for _, o := range all {
		i.k.Eventually(o, testkit.Ready(), testkit.Match("seen", func(u *unstructured.Unstructured) bool {
			seen, found, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
			return !found || seen >= u.GetGeneration()
		}))
	}
}

// sample returns an object like the first sample of the operator.
func (i *installation) sample(name string) *unstructured.Unstructured {
	i.t.Helper()
	o, err := fixture.Sample(lifecycle.projects[i.name], i.k.Namespace, name)
	if err != nil {
		i.t.Fatal(err)
	}
	return o
}

// stableChildren returns the children after the program of a version has reconciled all objects, and no child has changed
// for a while.
func (i *installation) stableChildren(version string) map[string]string {
	i.t.Helper()
	image := i.deployment(version).Spec.Template.Spec.Containers[0].Image
	i.k.Wait(i.name+" "+version+" to be done", fixture.Throttle(func(ctx context.Context) error {
		return i.observer.CheckIdle(ctx, i.k.Client, lifecycle.pods.Processes(), i.name, image, objectCount)
	}))
	var rest fixture.StableChildren
	i.k.Wait("the children are at rest", fixture.Throttle(func(context.Context) error { return rest.Observe(i.children()) }))
	return rest.Children
}

// children returns the operator's children in the namespace of the objects, with their versions, without the children of the
// probe objects.
func (i *installation) children() map[string]string {
	i.t.Helper()
	all, err := fixture.Children(i.t.Context(), i.k.Client, i.k.Namespace)
	if err != nil {
		i.t.Fatal(err)
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return strings.Contains(name, probePrefix) })
	return all
}
