package fault

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
)

var podFailed = Fault{
	Name: "pod-failed",
	Long: true,
	Doc:  "A pod that the operator created fails for ever, as an evicted one does.",
	Plan: func(in *Input) []Plan {
		return atChildren(in, func(place, step int, c baseline.Child) []Plan {
			if c.Kind.String() != "pods" || step >= len(in.Steps) {
				return nil
			}
			return []Plan{{
				Name: "pod-failed/" + c.Name, Fault: "pod-failed", Step: step + 1, place: place, ExtraQuiet: true, SkipCounts: true,
				Summary: fmt.Sprintf("%s failed", c.Name),
				AfterIdle: func(r Run, at int) {
					if at == step && failPod(r, c) {
						r.Converge(step)
					}
				},
			}}
		})
	},
}

// failPod sets the phase of a pod to Failed, in the role of the kubelet. Nothing ends this phase.
func failPod(r Run, c baseline.Child) bool {
	live, ok := r.Child(c)
	if !ok {
		return false
	}
	if policy, _, _ := unstructured.NestedString(live.Object.Object, "spec", "restartPolicy"); policy == "Never" {
		r.MarkUntried("a pod that is never restarted may fail on purpose")
		return false
	}
	const status = `{"status":{"phase":"Failed","reason":"Evicted","conditions":[` +
		`{"type":"Ready","status":"False","reason":"PodFailed"},` +
		`{"type":"ContainersReady","status":"False","reason":"PodFailed"}]}}`
	s := r.Space()
	patch := client.RawPatch(types.StrategicMergePatchType, []byte(status))
	if err := s.Client.Status().Patch(s.Context(), live.Object.DeepCopy(), patch); err != nil {
		r.MarkUntried("the status of the pod cannot be written: " + err.Error())
		return false
	}
	r.LogFault(nameOf(live) + " fails")
	r.Operator().ResetIdleTime()
	r.Await(func() bool {
		again, ok := r.Child(c)
		return !ok || again.Object.GetResourceVersion() != live.Object.GetResourceVersion()
	})
	return true
}
