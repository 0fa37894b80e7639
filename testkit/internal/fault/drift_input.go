package fault

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

var driftInput = Fault{
	Name: "drift-input",
	Doc:  "The fields that the operator added to an object of the scenario, such as an annotation, are removed.",
	Plan: func(in *Input) []Plan {
		const summary = "what the operator had added to %s was removed by hand"
		return planRemovals(in, "drift-input", summary, in.AddedFields, Run.AddedFields)
	},
}

var driftMetadata = Fault{
	Name: "drift-metadata",
	Long: true,
	Doc:  "The labels and annotations that the operator set in a child are removed.",
	Plan: func(in *Input) []Plan {
		const summary = "the labels and annotations of %s were removed by hand"
		return planRemovals(in, "drift-metadata", summary, in.MetadataFields, Run.MetadataFields)
	},
}

// planRemovals returns a plan for each object with fields, at the last step at which it has some. known has the fields of
// the baseline by step, and current returns those of a run.
func planRemovals(in *Input, fault, summary string, known []map[string][]state.Field, current fieldsOf) []Plan {
	var plans []Plan
	tried := map[string]bool{}
	for step, objects := range slices.Backward(known) {
		if step >= len(in.Steps) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			if tried[name] {
				continue
			}
			tried[name] = true
			p := planRemoval(in, step, baseline.Child{Name: name}, current)
			p.Name = fault + "/" + name
			p.Fault = fault
			p.Summary = fmt.Sprintf(summary, name)
			p.place = len(tried)
			switch {
			case isExternallyManaged(in, name):
				p.Skip = "the operator leaves it to others"
			case strings.HasPrefix(name, "jobs.batch/"):
				p.Skip = "a Job performs a task once: what becomes of it later is not the operator's"
			}
			plans = append(plans, p)
		}
	}
	return plans
}

// planRemoval removes fields while the operator is down, and again while it runs. An operator that does not restore a field
// after its start adds it once, and need not restore it later.
func planRemoval(in *Input, step int, object baseline.Child, fields fieldsOf) Plan {
	return Plan{
		Step: step + 1, ExtraQuiet: true, SkipCounts: true,
		AfterIdle: func(r Run, at int) {
			if at != step {
				return
			}
			restored := restoredFields(in, r, object, fields)
			if len(restored) == 0 {
				return
			}
			if why := patchFields(r, object, restored, nil); why != "" {
				r.Discard(why)
				return
			}
			r.LogFault("another manager removes what the operator added to " + object.Name)
			r.Converge(step)
		},
	}
}

// fieldsOf returns the paths of fields, and the canonical ones.
type fieldsOf func(r Run, c baseline.Child) (paths [][]string, canonical []state.Field)

// restoredFields returns the paths of the added fields that the operator restores after its start, which it puts back
// otherwise. If there are none, the fault is untried.
func restoredFields(in *Input, r Run, input baseline.Child, all fieldsOf) [][]string {
	paths, canonical := all(r, input)
	var fields [][]string
	for i, path := range paths {
		if !isExternallyManaged(in, input.Name+"."+canonical[i].String()) {
			fields = append(fields, path)
		}
	}
	live, ok := r.Child(input)
	if !ok || len(fields) == 0 {
		r.MarkUntried("the operator added nothing to the object")
		return nil
	}
	takeDown(r)
	if why := patchFields(r, input, fields, nil); why != "" {
		r.MarkUntried(why)
		r.Start()
		return nil
	}
	r.Start()
	r.AwaitStart(func() bool {
		_, lost := presentFields(r, input, fields)
		return len(lost) == 0
	})
	restored, lost := presentFields(r, input, fields)
	if len(lost) > 0 {
		if why := patchFields(r, input, lost, live.Object); why != "" {
			r.Discard(why)
			return nil
		}
	}
	if len(restored) == 0 {
		r.Discard("the operator does not restore it after its start either, so it may add it once")
	}
	return restored
}

// presentFields divides paths into those of fields that an object has, and the others.
func presentFields(r Run, input baseline.Child, paths [][]string) (present, lost [][]string) {
	r.AwaitWrites()
	live, ok := r.Child(input)
	for _, path := range paths {
		if ok && at(live.Object.Object, path) != nil {
			present = append(present, path)
		} else {
			lost = append(lost, path)
		}
	}
	return present, lost
}

// patchFields removes the fields of an object, or sets them to the values in another version of it. It returns why it
// did not, or "".
func patchFields(r Run, input baseline.Child, fields [][]string, from *unstructured.Unstructured) string {
	live, ok := r.Child(input)
	if !ok {
		return "the object does not exist"
	}
	change := map[string]any{}
	for _, path := range fields {
		var v any
		if from != nil {
			v = at(from.Object, path)
		}
		if err := unstructured.SetNestedField(change, v, path...); err != nil {
			return err.Error()
		}
	}
	text, err := json.Marshal(change)
	if err == nil {
		err = patch(r, live.Object, types.MergePatchType, string(text))
	}
	if err != nil {
		return "the object cannot be changed: " + err.Error()
	}
	r.Operator().ResetIdleTime()
	r.AwaitWrites()
	if again, ok := r.Child(input); ok && again.Object.GetResourceVersion() == live.Object.GetResourceVersion() {
		return "the API server keeps the fields" // such as the label kubernetes.io/metadata.name of a Namespace
	}
	return ""
}
