package life_test

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
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/life"
)

// world is an API server with one ImmortalContainer, a node, people, and an operator that carries out the steps in the
// order in which the SDK does. Everything that can go wrong between two requests does, as the random numbers have it.
type world struct {
	random *rand.Rand
	now    time.Time
	ic     *v1alpha1.ImmortalContainer // as stored; its resourceVersion is in version
	pod    *corev1.Pod                 // as stored, nil if there is none

	version int
	created map[types.UID]bool
	past    []moment // what a cache may still show
	events  []string // what happened, to explain a failure
	problem string   // the first thing that was wrong
}

type moment struct {
	ic      *v1alpha1.ImmortalContainer
	version int
	pod     *corev1.Pod
}

const finalizer = "account"

func newWorld(seed uint64) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 0)), now: noon, ic: fresh(), created: map[types.UID]bool{},
	}
	w.remember()
	return w
}

func (w *world) remember() {
	w.past = append(w.past, moment{w.ic.DeepCopy(), w.version, w.pod.DeepCopy()})
	w.past = w.past[max(0, len(w.past)-6):]
}

func (w *world) tell(format string, args ...any) {
	w.events = append(w.events, w.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
	w.remember()
}

// happen lets one thing happen that is not the operator's doing.
func (w *world) happen() {
	w.now = w.now.Add(time.Duration(w.random.IntN(4000)) * time.Millisecond)
	switch n := w.random.IntN(12); {
	case n == 0:
		w.edit("image", func(s *v1alpha1.ImmortalContainerSpec) { s.Image = fmt.Sprintf("nginx:%d", w.random.IntN(3)) })
	case n == 1:
		args := []string{strconv.Itoa(w.random.IntN(3))}
		w.edit("arguments", func(s *v1alpha1.ImmortalContainerSpec) { s.Args = args })
	case n == 2:
		w.edit("suspend", func(s *v1alpha1.ImmortalContainerSpec) { s.Suspend = !s.Suspend })
	case n == 3:
		w.edit("strategy", func(s *v1alpha1.ImmortalContainerSpec) {
			s.UpdateStrategy = v1alpha1.UpdateInPlaceIfPossible
			if w.random.IntN(2) == 0 {
				s.UpdateStrategy = v1alpha1.UpdateRecreate
			}
		})
	case w.pod == nil:
	case n == 4:
		w.change("is deleted", deleted(0))
	case n == 5:
		w.change("is deleted by force", deleted(0))
		w.vanish()
	case n == 6:
		w.change("fails", ended(corev1.PodFailed, "Error", 1))
	case n == 7:
		w.change("is evicted", blamed("Evicted", ""))
	case n == 8:
		w.change("is lost", func(p *corev1.Pod) { deleted(0)(p); disrupted("DeletionByTaintManager")(p) })
	default:
		if w.pod.DeletionTimestamp != nil {
			w.vanish()
		}
	}
}

func (w *world) edit(what string, change func(*v1alpha1.ImmortalContainerSpec)) {
	edited(change)(w.ic)
	w.version++
	w.tell("somebody edits: %s", what)
}

func (w *world) change(what string, change func(*corev1.Pod)) {
	pod := w.pod.DeepCopy()
	change(pod)
	w.pod = pod
	w.tell("pod %s %s", pod.UID, what)
}

// vanish removes a pod that is being deleted, unless the operator holds it.
func (w *world) vanish() {
	if len(w.pod.Finalizers) == 0 {
		w.tell("pod %s is gone", w.pod.UID)
		w.pod = nil
		w.remember()
	}
}

// operate makes one pass. It sees the present, or the past if its caches are behind, and may die at each point.
func (w *world) operate(faults bool) (wrote bool) {
	seen := w.look(faults)
	dies := func() bool { return faults && w.random.IntN(5) == 0 }
	before := seen.ic.Status.DeepCopy()
	step := life.Next(seen.ic, seen.pod, w.now)
	w.lookTwice(before, seen)
	if dies() {
		return true
	}
	stale := false
	if step.Want == life.Run {
		wrote, stale = w.apply(seen, step.Counted)
	}
	if dies() {
		return true
	}
	if !sameStatus(before, &seen.ic.Status) {
		if seen.version != w.version {
			return true // the API server refuses a status that was computed from an old object
		}
		w.ic.Status = *seen.ic.Status.DeepCopy()
		w.version++
		s := &w.ic.Status
		w.tell("status: %d starts, pod %s, %d ends", s.StartTimes, s.PodUID, len(s.History))
		wrote = true
	}
	if stale || dies() || step.Want == life.Run || seen.pod == nil {
		return wrote
	}
	return w.prune(seen.pod, step.Want == life.Abandon) || wrote
}

// look returns what the caches show.
func (w *world) look(behind bool) moment {
	seen := moment{w.ic.DeepCopy(), w.version, w.pod.DeepCopy()}
	if behind && w.random.IntN(3) == 0 {
		seen.pod = w.past[w.random.IntN(len(w.past))].pod.DeepCopy()
	}
	if behind && w.random.IntN(3) == 0 {
		old := w.past[w.random.IntN(len(w.past))]
		seen.ic, seen.version = old.ic.DeepCopy(), old.version
	}
	return seen
}

// lookTwice checks that a second look at the same pod finds nothing new. The first look at a new specification is
// special: it ends the backoff.
func (w *world) lookTwice(before *v1alpha1.ImmortalContainerStatus, seen moment) {
	c := meta.FindStatusCondition(before.Conditions, life.ConditionBackingOff)
	if c == nil || c.ObservedGeneration != seen.ic.Generation {
		return
	}
	again := seen.ic.DeepCopy()
	step := life.Next(again, seen.pod, w.now)
	if step.Started || step.Ended != nil || !sameStatus(&seen.ic.Status, &again.Status) {
		w.problem = "a second look gives another status:\n" + cmp.Diff(seen.ic.Status, again.Status)
	}
}

// apply brings about what the viewed ImmortalContainer wants, as the SDK's engine does for a tracked child.
func (w *world) apply(seen moment, counted bool) (wrote, stale bool) {
	want := desired.Pod(seen.ic)
	switch {
	case seen.pod == nil && w.pod == nil:
		w.create(want)
		return true, false
	case seen.pod == nil && w.pod.DeletionTimestamp != nil:
		return false, false
	case seen.pod == nil:
	case w.pod == nil || w.pod.UID != seen.pod.UID:
		return false, true
	case seen.pod.DeletionTimestamp != nil:
		if !counted || len(w.pod.Finalizers) == 0 {
			return false, false
		}
		w.change("is released", func(p *corev1.Pod) { p.Finalizers = nil })
		return true, false
	}
	return w.update(want, counted)
}

// update brings the pod to what is wanted of it, if it is not there already.
func (w *world) update(want *corev1.Pod, counted bool) (wrote, stale bool) {
	held := len(w.pod.Finalizers) > 0
	image := want.Spec.Containers[0].Image
	if held == !counted && cmp.Equal(w.pod.Spec.Containers, want.Spec.Containers) {
		return false, false
	}
	if w.pod.DeletionTimestamp != nil && !counted {
		return false, true // nobody can add a finalizer to an object that is being deleted
	}
	if !cmp.Equal(w.pod.Spec.Containers[0].Args, want.Spec.Containers[0].Args) {
		// A pod cannot take over new arguments: the API server refuses, and the SDK deletes it to create another.
		w.change("is replaced", deleted(0))
		return true, false
	}
	w.change("is updated", func(p *corev1.Pod) {
		p.Spec.Containers[0].Image = image
		p.Annotations[desired.AnnotationImage] = image
		p.Finalizers = nil
		if !counted {
			p.Finalizers = []string{finalizer}
		}
	})
	return true, false
}

func (w *world) create(want *corev1.Pod) {
	uid := types.UID(fmt.Sprintf("pod-%d", len(w.created)))
	w.pod = pod(uid, func(p *corev1.Pod) {
		p.Spec, p.Annotations = want.Spec, want.Annotations
		p.Spec.NodeName = "node-1"
		p.CreationTimestamp.Time = w.now
		p.Finalizers = []string{finalizer}
	})
	w.created[uid] = true
	w.tell("pod %s is created", uid)
}

// prune deletes the viewed pod, after releasing it.
func (w *world) prune(seen *corev1.Pod, force bool) bool {
	if w.pod == nil || w.pod.UID != seen.UID {
		return false
	}
	if len(w.pod.Finalizers) > 0 {
		w.change("is released", func(p *corev1.Pod) { p.Finalizers = nil })
	}
	if w.pod.DeletionTimestamp == nil {
		w.change("is deleted by the operator", deleted(0))
	} else if !force {
		return false
	}
	if force || w.pod.Status.Phase == corev1.PodFailed {
		w.vanish()
	}
	return true
}
