package policy_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/policy"
)

// simulation is an API server with one ImmortalContainer, a node, users, and an operator that applies decisions in the
// order of the SDK. Random faults happen between any two requests.
type simulation struct {
	random *rand.Rand
	now    time.Time
	ic     *v1alpha1.ImmortalContainer // as stored; its resourceVersion is in version
	pod    *corev1.Pod                 // as stored, nil if there is none

	version int
	created map[types.UID]bool
	past    []snapshot // states that a cache may still show
	events  []string   // log of the simulation, to explain a failure
	problem string     // the first violation
}

type snapshot struct {
	ic      *v1alpha1.ImmortalContainer
	version int
	pod     *corev1.Pod
}

const finalizer = "account"

func newSimulation(seed uint64) *simulation {
	s := &simulation{
		random: rand.New(rand.NewPCG(seed, 0)), now: noon, ic: newContainer(), created: map[types.UID]bool{},
	}
	s.remember()
	return s
}

func (s *simulation) remember() {
	s.past = append(s.past, snapshot{s.ic.DeepCopy(), s.version, s.pod.DeepCopy()})
	s.past = s.past[max(0, len(s.past)-6):]
}

func (s *simulation) logf(format string, args ...any) {
	s.events = append(s.events, s.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
	s.remember()
}

// externalChange makes one random change by a user or the node.
func (s *simulation) externalChange() {
	s.now = s.now.Add(time.Duration(s.random.IntN(4000)) * time.Millisecond)
	switch n := s.random.IntN(12); {
	case n == 0:
		s.edit("image", func(spec *v1alpha1.ImmortalContainerSpec) { spec.Image = fmt.Sprintf("nginx:%d", s.random.IntN(3)) })
	case n == 1:
		args := []string{strconv.Itoa(s.random.IntN(3))}
		s.edit("arguments", func(spec *v1alpha1.ImmortalContainerSpec) { spec.Args = args })
	case n == 2:
		s.edit("suspend", func(spec *v1alpha1.ImmortalContainerSpec) { spec.Suspend = !spec.Suspend })
	case n == 3:
		s.edit("strategy", func(spec *v1alpha1.ImmortalContainerSpec) {
			spec.UpdateStrategy = v1alpha1.UpdateInPlaceIfPossible
			if s.random.IntN(2) == 0 {
				spec.UpdateStrategy = v1alpha1.UpdateRecreate
			}
		})
	case s.pod == nil:
	case n == 4:
		s.change("is deleted", deleted(0))
	case n == 5:
		s.change("is deleted by force", deleted(0))
		s.removePod()
	case n == 6:
		s.change("fails", ended(corev1.PodFailed, "Error", 1))
	case n == 7:
		s.change("is evicted", failedByKubelet("Evicted", ""))
	case n == 8:
		s.change("is lost", func(p *corev1.Pod) { deleted(0)(p); disrupted("DeletionByTaintManager")(p) })
	default:
		if s.pod.DeletionTimestamp != nil {
			s.removePod()
		}
	}
}

func (s *simulation) edit(what string, change func(*v1alpha1.ImmortalContainerSpec)) {
	edited(change)(s.ic)
	s.version++
	s.logf("a user edits: %s", what)
}

func (s *simulation) change(what string, change func(*corev1.Pod)) {
	pod := s.pod.DeepCopy()
	change(pod)
	s.pod = pod
	s.logf("pod %s %s", pod.UID, what)
}

// removePod removes a terminating pod, unless it has the operator's finalizer.
func (s *simulation) removePod() {
	if len(s.pod.Finalizers) == 0 {
		s.logf("pod %s is gone", s.pod.UID)
		s.pod = nil
		s.remember()
	}
}

// reconcile makes one reconcile. With faults the caches may be stale, and the operator may crash at each point.
func (s *simulation) reconcile(faults bool) (wrote bool) {
	seen := s.observe(faults)
	dies := func() bool { return faults && s.random.IntN(5) == 0 }
	before := seen.ic.Status.DeepCopy()
	step := policy.Next(seen.ic, seen.pod, s.now)
	s.checkIdempotent(before, seen)
	if dies() {
		return true
	}
	stale := false
	if step.Want == policy.Run {
		wrote, stale = s.apply(seen, step.Counted)
	}
	if dies() {
		return true
	}
	if !sameStatus(before, &seen.ic.Status) {
		if seen.version != s.version {
			return true // the API server rejects a status that was computed from a stale object
		}
		s.ic.Status = *seen.ic.Status.DeepCopy()
		s.version++
		status := &s.ic.Status
		s.logf("status: %d starts, pod %s, %d ends", status.StartTimes, status.PodUID, len(status.History))
		wrote = true
	}
	if stale || dies() || step.Want == policy.Run || seen.pod == nil {
		return wrote
	}
	return s.prune(seen.pod, step.Want == policy.ForceDelete) || wrote
}

// observe returns the content of the caches.
func (s *simulation) observe(behind bool) snapshot {
	seen := snapshot{s.ic.DeepCopy(), s.version, s.pod.DeepCopy()}
	if behind && s.random.IntN(3) == 0 {
		seen.pod = s.past[s.random.IntN(len(s.past))].pod.DeepCopy()
	}
	if behind && s.random.IntN(3) == 0 {
		old := s.past[s.random.IntN(len(s.past))]
		seen.ic = old.ic.DeepCopy()
		seen.version = old.version
	}
	return seen
}

// checkIdempotent checks that a second evaluation of the same pod changes nothing. The first evaluation of a new
// specification is an exception: it resets the backoff.
func (s *simulation) checkIdempotent(before *v1alpha1.ImmortalContainerStatus, seen snapshot) {
	c := meta.FindStatusCondition(before.Conditions, policy.ConditionBackingOff)
	if c == nil || c.ObservedGeneration != seen.ic.Generation {
		return
	}
	again := seen.ic.DeepCopy()
	step := policy.Next(again, seen.pod, s.now)
	if step.Started || step.Ended != nil || !sameStatus(&seen.ic.Status, &again.Status) {
		s.problem = "a second evaluation gives another status:\n" + cmp.Diff(seen.ic.Status, again.Status)
	}
}

// apply creates or updates the pod as the SDK does for a child with HoldUntil.
func (s *simulation) apply(seen snapshot, counted bool) (wrote, stale bool) {
	want := desired.Pod(seen.ic)
	switch {
	case seen.pod == nil && s.pod == nil:
		s.create(want)
		return true, false
	case seen.pod == nil && s.pod.DeletionTimestamp != nil:
		return false, false
	case seen.pod == nil:
	case s.pod == nil || s.pod.UID != seen.pod.UID:
		return false, true
	case seen.pod.DeletionTimestamp != nil:
		if !counted || len(s.pod.Finalizers) == 0 {
			return false, false
		}
		s.change("is released", func(p *corev1.Pod) { p.Finalizers = nil })
		return true, false
	}
	return s.update(want, counted)
}

// update changes the pod to the desired one.
func (s *simulation) update(want *corev1.Pod, counted bool) (wrote, stale bool) {
	held := len(s.pod.Finalizers) > 0
	image := want.Spec.Containers[0].Image
	if held == !counted && cmp.Equal(s.pod.Spec.Containers, want.Spec.Containers) {
		return false, false
	}
	if s.pod.DeletionTimestamp != nil && !counted {
		return false, true // the API server rejects new finalizers on a terminating object
	}
	if !cmp.Equal(s.pod.Spec.Containers[0].Args, want.Spec.Containers[0].Args) {
		// The API server rejects new arguments of a pod. The SDK then deletes the pod and creates another.
		s.change("is replaced", deleted(0))
		return true, false
	}
	s.change("is updated", func(p *corev1.Pod) {
		p.Spec.Containers[0].Image = image
		p.Annotations[desired.AnnotationImage] = image
		p.Finalizers = nil
		if !counted {
			p.Finalizers = []string{finalizer}
		}
	})
	return true, false
}

func (s *simulation) create(want *corev1.Pod) {
	uid := types.UID(fmt.Sprintf("pod-%d", len(s.created)))
	s.pod = pod(uid, func(p *corev1.Pod) {
		p.Spec = want.Spec
		p.Annotations = want.Annotations
		p.Spec.NodeName = "node-1"
		p.CreationTimestamp.Time = s.now
		p.Finalizers = []string{finalizer}
	})
	s.created[uid] = true
	s.logf("pod %s is created", uid)
}

// prune removes the finalizer of the observed pod and deletes it.
func (s *simulation) prune(seen *corev1.Pod, force bool) bool {
	if s.pod == nil || s.pod.UID != seen.UID {
		return false
	}
	if len(s.pod.Finalizers) > 0 {
		s.change("is released", func(p *corev1.Pod) { p.Finalizers = nil })
	}
	if s.pod.DeletionTimestamp == nil {
		s.change("is deleted by the operator", deleted(0))
	} else if !force {
		return false
	}
	if force || s.pod.Status.Phase == corev1.PodFailed {
		s.removePod()
	}
	return true
}
