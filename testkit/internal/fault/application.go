package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/podplane"
)

// This file has the faults of the application: those of containers, pods and nodes, not of the API. A pod is broken when the
// operator is idle. The operator has to report that while it lasts, and to reach the state of the baseline afterwards.

// evicted and diskFull are the names of faults of pods that leave their nodes alone.
const (
	evicted  = "application-evicted"
	diskFull = "application-disk-full"
)

var applicationKilled = Fault{
	Name: "application-killed",
	Long: true,
	Doc:  "The process of a container is killed, and kubelet starts it again.",
	Plan: func(in *Input) []Plan {
		return atContainers(in, "application-killed", "was killed", func(r Run, step int, p target) {
			restarted(r, step, p, podplane.Plane.Kill)
		})
	},
}

var applicationOOM = Fault{
	Name: "application-oom",
	Long: true,
	Doc:  "A container exceeds its memory limit: it ends with reason OOMKilled, and kubelet starts it again.",
	Plan: func(in *Input) []Plan {
		return atContainers(in, "application-oom", "exceeded its memory limit", func(r Run, step int, p target) {
			restarted(r, step, p, podplane.Plane.ExhaustMemory)
		})
	},
}

var applicationPaused = Fault{
	Name: "application-paused",
	Long: true,
	Doc:  "A container does not answer for a while, and then goes on: its pod is not Ready meanwhile.",
	Plan: func(in *Input) []Plan { return aloneToo(in, planPaused(in), planPaused) },
}

func planPaused(in *Input) []Plan {
	return atContainers(in, "application-paused", "did not answer for a while", func(r Run, step int, p target) {
		unreachable(r, step, p, "stops answering", false,
			func(plane podplane.Plane, ctx context.Context, pod types.NamespacedName) (func(context.Context) error, error) {
				return plane.Pause(ctx, pod, p.container)
			})
	})
}

var applicationUnreachable = Fault{
	Name: "application-unreachable",
	Long: true,
	Doc:  "The node of a pod is unreachable for a while: the pod is not Ready, although its containers may go on.",
	Plan: func(in *Input) []Plan {
		return atPods(in, "application-unreachable", "was on a node that was unreachable for a while",
			func(r Run, step int, p target) {
				unreachable(r, step, p, "is unreachable with its node", false, podplane.Plane.Lose)
			})
	},
}

var applicationLost = Fault{
	Name: "application-lost",
	Long: true,
	Doc: "The node of a pod is unreachable for so long that the pod is deleted. The deletion ends when the node is back: " +
		"until then the containers may go on.",
	Plan: func(in *Input) []Plan {
		return atPods(in, "application-lost", "was deleted while its node was unreachable", func(r Run, step int, p target) {
			unreachable(r, step, p, "is lost with its node", true, podplane.Plane.Lose)
		})
	},
}

var applicationEvicted = Fault{
	Name: evicted,
	Long: true,
	Doc:  "A pod is evicted, as in a drain of its node.",
	Plan: func(in *Input) []Plan {
		return atPods(in, evicted, "was evicted", evict)
	},
}

var applicationDiskFull = Fault{
	Name: diskFull,
	Long: true,
	Doc: "The disk of the node of a pod is full, so that kubelet evicts the pod: it has failed, and stays. Its workload, " +
		"or the operator, replaces it.",
	Plan: func(in *Input) []Plan {
		return atPods(in, diskFull, "was evicted, because the disk of its node was full", fillDisk)
	},
}

// target is a container of a pod, or a pod.
type target struct {
	pod       baseline.Pod
	container string
}

// injector breaks a pod, or a container of it, after a step.
type injector func(r Run, step int, t target)

// atContainers returns a plan for each container of each pod, at the last step after which it exists.
func atContainers(in *Input, fault, what string, inject injector) []Plan {
	return planTargets(in, fault, what, true, inject)
}

// atPods is atContainers for whole pods.
func atPods(in *Input, fault, what string, inject injector) []Plan {
	return planTargets(in, fault, what, false, inject)
}

// aloneToo adds a plan for each pod that was alone after an earlier step: only then the status has to be another one.
func aloneToo(in *Input, plans []Plan, plan func(in *Input) []Plan) []Plan {
	last := slices.IndexFunc(in.Pods, func(pods []baseline.Pod) bool { return len(pods) == 1 })
	if last < 0 || last >= len(in.Steps) {
		return plans
	}
	alone := *in
	alone.Baseline = new(*in.Baseline)
	alone.Pods = in.Pods[:last+1]
	for _, p := range plan(&alone) {
		is := func(q Plan) bool { return q.Step == p.Step && q.Name == p.Name }
		if p.Step == last+1 && !slices.ContainsFunc(plans, is) {
			p.Name += "@" + slug(in.Steps[last])
			plans = append(plans, p)
		}
	}
	return plans
}

func planTargets(in *Input, fault, what string, eachContainer bool, inject injector) []Plan {
	var plans []Plan
	tried := map[string]bool{}
	for step, pods := range slices.Backward(in.Pods) {
		if step >= len(in.Steps) {
			continue
		}
		for _, pod := range pods {
			if tried[pod.Name] || pod.Stays && !eachContainer {
				continue
			}
			tried[pod.Name] = true
			if !eachContainer {
				plans = append(plans, planTarget(fault, what, len(tried), step, target{pod: pod}, inject))
				continue
			}
			for _, container := range pod.Containers {
				plans = append(plans, planTarget(fault, what, len(tried), step, target{pod, container}, inject))
			}
		}
	}
	return plans
}

func planTarget(fault, what string, place, step int, t target, inject injector) Plan {
	name, subject := t.pod.Name, "the pod "+t.pod.Name
	if t.container != "" {
		subject = fmt.Sprintf("container %s of %s", t.container, t.pod.Name)
		if len(t.pod.Containers) > 1 {
			name += "/" + t.container
		}
	}
	return Plan{
		Name: fault + "/" + name, Fault: fault, Step: step + 1, place: place, ExtraQuiet: true, SkipCounts: true,
		LosesNode: t.container == "" && fault != evicted && fault != diskFull,
		Summary:   subject + " " + what,
		AfterIdle: func(r Run, at int) {
			if at == step {
				inject(r, step, t)
			}
		},
	}
}

// restarted ends a container, and waits until its pod is Ready again.
func restarted(
	r Run, step int, t target,
	end func(p podplane.Plane, ctx context.Context, pod types.NamespacedName, container string) error,
) {
	live, plane, ok := breakable(r, t)
	if !ok {
		return
	}
	if err := end(plane, r.Space().Context(), keyOf(live), t.container); err != nil {
		r.MarkUntried(err.Error())
		return
	}
	r.LogFault(fmt.Sprintf("container %s of %s ends", t.container, nameOf(live)))
	r.Operator().ResetIdleTime()
	before := restartsOf(podOf(live))
	r.Await(func() bool {
		now, is := r.Pod(t.pod)
		return !is || now.Object.GetUID() != live.Object.GetUID() || restartsOf(podOf(now)) > before && isReady(podOf(now))
	})
	r.Converge(step)
}

// unreachable cuts a pod off, waits until the status of the custom resources is true, ends the fault and waits for the state
// of the baseline. If deleted is true, the pod is deleted meanwhile.
func unreachable(
	r Run, step int, t target, what string, deleted bool,
	begin func(p podplane.Plane, ctx context.Context, pod types.NamespacedName) (func(context.Context) error, error),
) {
	live, plane, ok := breakable(r, t)
	if !ok {
		return
	}
	s := r.Space()
	end, err := begin(plane, s.Context(), keyOf(live))
	if err != nil {
		r.MarkUntried(err.Error())
		return
	}
	r.LogFault(nameOf(live) + " " + what)
	r.Operator().ResetIdleTime()
	isUnready := func() bool {
		now, is := byUID(r, live)
		return !is || !isReady(podOf(now))
	}
	r.Await(isUnready)
	noticed := isUnready()
	goesOn := noticed && r.AwaitTrueStatus(step)
	if noticed && deleted {
		r.LogFault("the pod is deleted, and the deletion waits for the node")
		// The operator may have deleted the pod already.
		_ = s.Client.Delete(s.Context(), live.Object.DeepCopy(), client.Preconditions{UID: new(live.Object.GetUID())})
		goesOn = goesOn && r.AwaitTrueStatus(step)
	}
	if !restore(r, end) {
		return
	}
	if !noticed {
		r.Discard("the pod stays Ready: it has no readiness probe, or the lease of the node is too long")
		return
	}
	r.LogFault("the pod can be reached again")
	if goesOn {
		awaitReadyAgain(r, live, t)
		r.Converge(step)
	}
}

// restoreTime limits the end of a fault: a real node starts in seconds.
const restoreTime = time.Minute

// restore ends a fault, also if the run is over. The run does not count if that fails.
func restore(r Run, end func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Space().Context()), restoreTime)
	defer cancel()
	if err := end(ctx); err != nil {
		r.Discard("the fault cannot be ended: " + err.Error())
		return false
	}
	r.Operator().ResetIdleTime()
	return true
}

// awaitReadyAgain waits until a broken pod is Ready again, has failed, or is gone. If a workload replaces it, it waits for
// the next Ready pod. A pod that the operator replaces is a part of the state.
func awaitReadyAgain(r Run, broken history.Change, t target) {
	owner := metav1.GetControllerOf(broken.Object)
	ofWorkload := owner != nil && strings.HasPrefix(owner.APIVersion, "apps/")
	r.Await(func() bool {
		now, is := byUID(r, broken)
		if is && podOf(now).Status.Phase != corev1.PodFailed &&
			(now.Object.GetDeletionTimestamp() != nil || !isReady(podOf(now))) {
			return false
		}
		next, is := r.Pod(t.pod)
		return !ofWorkload || is && isReady(podOf(next))
	})
}

// evict evicts a pod through the API, and waits for the next one.
func evict(r Run, step int, t target) {
	live, _, ok := breakable(r, t)
	if !ok {
		return
	}
	s := r.Space()
	eviction := &policyv1.Eviction{}
	eviction.Name = live.Object.GetName()
	eviction.Namespace = live.Object.GetNamespace()
	err := s.Client.SubResource("eviction").Create(s.Context(), podOf(live), eviction)
	switch {
	case apierrors.IsTooManyRequests(err):
		r.MarkUntried("a PodDisruptionBudget forbids the eviction")
		return
	case err != nil:
		r.MarkUntried("the pod cannot be evicted: " + err.Error())
		return
	}
	r.LogFault(nameOf(live) + " is evicted")
	r.Operator().ResetIdleTime()
	r.Await(func() bool {
		_, is := byUID(r, live)
		return !is
	})
	awaitReadyAgain(r, live, t)
	r.Converge(step)
}

// fillDisk lets kubelet evict a pod that stays, and waits for the next one.
func fillDisk(r Run, step int, t target) {
	live, plane, ok := breakable(r, t)
	if !ok {
		return
	}
	if err := plane.FillDisk(r.Space().Context(), keyOf(live)); err != nil {
		r.MarkUntried(err.Error())
		return
	}
	r.LogFault(nameOf(live) + " is evicted from a node whose disk is full, and has failed")
	r.Operator().ResetIdleTime()
	r.Await(func() bool {
		now, is := byUID(r, live)
		return !is || podOf(now).Status.Phase == corev1.PodFailed
	})
	awaitReadyAgain(r, live, t)
	r.Converge(step)
}

// breakable returns a pod as it is now, and what breaks it.
func breakable(r Run, t target) (live history.Change, plane podplane.Plane, ok bool) {
	plane = r.Space().Pods
	if plane == nil {
		r.MarkUntried("no node runs pods: simulated or real nodes are needed")
		return live, nil, false
	}
	live, ok = r.Pod(t.pod)
	if !ok {
		r.MarkUntried("there is no such pod")
		return live, nil, false
	}
	if podOf(live).Spec.RestartPolicy == corev1.RestartPolicyNever {
		r.MarkUntried("its containers are never restarted: it may be a task, which may fail on purpose")
		return live, nil, false
	}
	return live, plane, true
}

// byUID returns the current version of an object.
func byUID(r Run, object history.Change) (history.Change, bool) {
	return find(r, func(c history.Change) bool { return c.Object.GetUID() == object.Object.GetUID() })
}

func podOf(c history.Change) *corev1.Pod {
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.Object.Object, pod); err != nil {
		return &corev1.Pod{}
	}
	return pod
}

func keyOf(c history.Change) types.NamespacedName { return client.ObjectKeyFromObject(c.Object) }

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func restartsOf(p *corev1.Pod) int32 {
	n := int32(0)
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}
