package fault

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
)

// atChildren returns the plans for each child, at the last step at which it exists.
func atChildren(in *Input, plan func(place, step int, c baseline.Child) []Plan) []Plan {
	var plans []Plan
	tried := map[string]bool{}
	for step, children := range slices.Backward(in.Children) {
		for _, c := range children {
			if tried[c.Name] {
				continue
			}
			tried[c.Name] = true
			plans = append(plans, plan(len(tried), step, c)...)
		}
	}
	return plans
}

func isJob(c baseline.Child) bool { return c.Kind.String() == "jobs.batch" }

// deleteChild deletes a child in the role of a user.
func deleteChild(r Run, c baseline.Child) {
	live, ok := r.Child(c)
	if !ok {
		return
	}
	if c.Kind.String() == "persistentvolumeclaims" && isMounted(r, live.Object.GetName()) {
		r.MarkUntried("a claim that is deleted stays for as long as a pod uses it")
		return
	}
	s := r.Space()
	background := client.PropagationPolicy(metav1.DeletePropagationBackground) // as kubectl does
	if err := s.Client.Delete(s.Context(), live.Object.DeepCopy(), background); err != nil {
		return // the object was deleted before
	}
	r.LogFault(fmt.Sprintf("a user deletes %s", nameOf(live)))
	r.Operator().ResetIdleTime()
	r.Await(func() bool {
		again, ok := r.Child(c)
		return !ok || again.Object.GetDeletionTimestamp() != nil || again.Object.GetUID() != live.Object.GetUID()
	})
}

// isMounted reports whether a pod uses the claim with this name. It reads from the API server, because the history may lag
// behind.
func isMounted(r Run, claim string) bool {
	var pods corev1.PodList
	s := r.Space()
	if err := s.Client.List(s.Context(), &pods, client.InNamespace(s.Namespace)); err != nil {
		return false
	}
	return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
		})
	})
}
