package fault

import (
	"fmt"
	"slices"
	"strings"

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

// isTask reports whether a child performs a task once, such as a Job or a certificate request.
func isTask(c baseline.Child) bool {
	return c.Kind.String() == "jobs.batch" || strings.HasSuffix(c.Kind.Resource, "requests") ||
		strings.HasSuffix(c.Kind.Resource, "runs")
}

func (in *Input) isOldRevision(step int, c baseline.Child) bool {
	return in.IsOldRevision != nil && in.IsOldRevision(step, c.Name)
}

const whyTask = "it performs a task once: a user may delete it on purpose, finished or not"

// isRecreated reports whether an operator has to recreate a child that a user has deleted after a step. If it has not, the
// reason says why.
func isRecreated(in *Input, step int, c baseline.Child) (_ bool, reason string) {
	switch {
	case isTask(c):
		return false, whyTask
	case in.isOldRevision(step, c):
		return false, "it is an old revision, which a fresh operator does not create"
	case slices.Contains(in.Irreplaceable, c.Name):
		return false, "the operator cannot make it again as it was"
	}
	return true, ""
}

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
