package explore

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// Script sets the setup and the steps of an exploration to those of a scenario file.
func (o *Options) Script(s *scenario.Scenario) {
	o.Setup = func(in *space.Space) error { return s.SetUp(in.Context(), in.Client, in.Namespace) }
	for i := range s.Steps {
		step := &s.Steps[i]
		o.Steps = append(o.Steps, Step{Name: step.Name, Do: func(in *space.Space) error {
			return step.Act(in.Context(), in.Client, in.Namespace)
		}})
	}
	for i := range s.Never {
		o.Invariants = append(o.Invariants, never(&s.Never[i]))
	}
	o.Await = func(in *space.Space, step int) error {
		return s.Steps[step].Await(in.Context(), in.Client, in.Namespace, in.Timeout)
	}
}

// never returns the invariant of a scenario file.
func never(w *scenario.Wait) Invariant {
	return Invariant{Name: w.Position.String(), HoldsIn: func(namespace string, objects []client.Object) string {
		all := make([]*unstructured.Unstructured, 0, len(objects))
		for _, o := range objects {
			u, ok := o.(*unstructured.Unstructured)
			if !ok {
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
				if err != nil {
					continue // the object came from an unstructured one
				}
				u = &unstructured.Unstructured{Object: content}
			}
			all = append(all, u)
		}
		return w.Violation(namespace, all)
	}}
}

// check returns a description of the violation, or "".
func (n Invariant) check(namespace string, objects []client.Object) string {
	if n.HoldsIn != nil {
		return n.HoldsIn(namespace, objects)
	}
	return n.Holds(objects)
}
