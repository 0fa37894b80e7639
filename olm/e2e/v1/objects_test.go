package v1_test

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/olm/internal/stage"
	"github.com/homeostat-dev/homeostat/testkit"
)

// live is how many objects live through an upgrade.
const live = 5

// populate makes them and waits until they are Ready.
func (i *installation) populate() []*unstructured.Unstructured {
	i.t.Helper()
	var all []*unstructured.Unstructured
	for n := range live {
		o := i.sample(fmt.Sprintf("live-%d", n))
		i.k.Apply(o)
		all = append(all, o)
	}
	i.areReady(all)
	return all
}

// probe begins the names of objects that show that an operator works.
const probe = "probe-"

// works waits until the operator runs as the Deployment says that OLM made, and has seen to an object: before, another
// pod may have the lease still.
func (i *installation) works(version string) {
	i.t.Helper()
	i.k.Eventually(i.workload(version), testkit.Ready())
	o := i.sample(probe + strings.ReplaceAll(version, ".", "-"))
	i.k.Apply(o)
	i.areReady([]*unstructured.Unstructured{o})
	i.k.Delete(o)
	i.k.Eventually(o, testkit.Gone())
}

// areReady waits until the operator has seen all of them as they are, and they are Ready.
func (i *installation) areReady(all []*unstructured.Unstructured) {
	i.t.Helper()
	for _, o := range all {
		i.k.Eventually(o, testkit.Ready(), testkit.Match("seen", func(u *unstructured.Unstructured) bool {
			seen, found, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
			return !found || seen >= u.GetGeneration()
		}))
	}
}

// sample is like the first sample of the operator.
func (i *installation) sample(name string) *unstructured.Unstructured {
	i.t.Helper()
	o, err := stage.Sample(lifecycle.projects[i.name], i.k.Namespace, name)
	if err != nil {
		i.t.Fatal(err)
	}
	return o
}

// atRest are the children, once the program of a version has seen to all objects, and none has changed for a while.
func (i *installation) atRest(version string) map[string]string {
	i.t.Helper()
	image := i.deployment(version).Spec.Template.Spec.Containers[0].Image
	i.k.Wait(i.name+" "+version+" to be done", stage.Calmly(func(ctx context.Context) error {
		return i.observer.Done(ctx, i.k.Client, lifecycle.pods.Processes(), i.name, image, live)
	}))
	var rest stage.Rest
	i.k.Wait("the children are at rest", stage.Calmly(func(context.Context) error { return rest.Look(i.children()) }))
	return rest.Children
}

// children are what the operator made in the namespace of the objects, and how often each was written, but for what it made
// to show that it works.
func (i *installation) children() map[string]string {
	i.t.Helper()
	all, err := stage.Children(i.t.Context(), i.k.Client, i.k.Namespace)
	if err != nil {
		i.t.Fatal(err)
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return strings.Contains(name, probe) })
	return all
}
