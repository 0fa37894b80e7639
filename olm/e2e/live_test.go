package e2e_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stages "github.com/homeostat-dev/homeostat/olm/internal/stage"
	"github.com/homeostat-dev/homeostat/testkit"
)

// populate makes so many objects of each operator, and waits until they are Ready.
func (s *stage) populate(each int) []client.Object {
	s.t.Helper()
	var all []client.Object
	for name := range s.projects {
		for n := range each {
			all = append(all, s.create(name, fmt.Sprintf("live-%02d", n)))
		}
	}
	s.ready(all)
	s.did(fmt.Sprintf("%d objects are Ready", len(all)))
	return all
}

// create makes an object like the first sample of the operator, and what that needs.
func (s *stage) create(operator, name string) client.Object {
	s.t.Helper()
	o, err := stages.Sample(s.projects[operator], s.k.Namespace, operator+"-"+name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.k.Apply(o)
	return o
}

// ready waits until the operators are done with all of them as they are.
func (s *stage) ready(all []client.Object) {
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

// children are what the operators made in the namespace of the objects, and how often each was written.
func (s *stage) children() map[string]string {
	s.t.Helper()
	all, err := stages.Children(s.t.Context(), s.k.Client, s.k.Namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// rest waits until the programs of a version have seen to all objects, of which there are so many for each operator, and
// returns what belongs to these, at rest.
func (s *stage) rest(version string, each int) map[string]string {
	s.t.Helper()
	for name := range s.projects {
		image := s.csv(name, version).Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image
		s.k.Wait(name+" "+version+" to be done", stages.Calmly(func(ctx context.Context) error {
			return s.observer.Done(ctx, s.k.Client, s.pods.Processes(), name, image, each)
		}))
	}
	children := s.atRest()
	s.did(fmt.Sprintf("programs of %s have seen all objects", version))
	return children
}

// atRest are the children, once none has changed for a while.
func (s *stage) atRest() map[string]string {
	s.t.Helper()
	var rest stages.Rest
	s.k.Wait("what belongs to objects to be at rest", stages.Calmly(func(context.Context) error {
		return rest.Look(s.children())
	}))
	return rest.Children
}
