package e2e_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/testkit"
)

// populate creates a number of objects of each operator, and waits until they are Ready.
func (s *suite) populate(each int) []client.Object {
	s.t.Helper()
	var all []client.Object
	for name := range s.projects {
		for n := range each {
			all = append(all, s.create(name, fmt.Sprintf("live-%02d", n)))
		}
	}
	s.waitReady(all)
	s.logElapsed(fmt.Sprintf("%d objects are Ready", len(all)))
	return all
}

// create creates an object like the first sample of the operator, and its dependencies.
func (s *suite) create(operator, name string) client.Object {
	s.t.Helper()
	o, err := fixture.Sample(s.projects[operator], s.k.Namespace, operator+"-"+name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.k.Apply(o)
	return o
}

// waitReady waits until the operators have reconciled the current generation of all objects.
func (s *suite) waitReady(all []client.Object) {
	s.t.Helper()
	for _, o := range all {
		s.k.Eventually(o, testkit.Ready())
	}
	s.k.Wait("the operators to be done with all objects", func(ctx context.Context) error {
		for _, o := range all {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
			if err := s.k.Client.Get(ctx, client.ObjectKeyFromObject(o), u); err != nil {
				return err
			}
			seen, found, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
			if found && seen < u.GetGeneration() {
				return fmt.Errorf("%s was not seen", u.GetName())
			}
		}
		return nil
	})
}

// children returns the operators' children in the namespace of the objects, with their versions.
func (s *suite) children() map[string]string {
	s.t.Helper()
	all, err := fixture.Children(s.t.Context(), s.k.Client, s.k.Namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// waitIdle waits until the programs of a version have reconciled all objects, a given number for each operator. It returns
// the children when they no longer change.
func (s *suite) waitIdle(version string, each int) map[string]string {
	s.t.Helper()
	for name := range s.projects {
		image := s.csv(name, version).Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image
		s.k.Wait(name+" "+version+" to be done", fixture.Throttle(func(ctx context.Context) error {
			return s.observer.CheckIdle(ctx, s.k.Client, s.pods.Processes(), name, image, each)
		}))
	}
	children := s.stableChildren()
	s.logElapsed(fmt.Sprintf("programs of %s have seen all objects", version))
	return children
}

// stableChildren returns the children after a period without changes.
func (s *suite) stableChildren() map[string]string {
	s.t.Helper()
	var rest fixture.StableChildren
	s.k.Wait("what belongs to objects to be at rest", fixture.Throttle(func(context.Context) error {
		return rest.Observe(s.children())
	}))
	return rest.Children
}
