package mutants

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator of pods.
const (
	degradedStays bug = "degraded-stays"
	twoLeaders    bug = "two-leaders"
	joinsOnce     bug = "joins-once"
	givesUpOnOOM  bug = "gives-up-on-oom"
	readyOnce     bug = "ready-once"
	createsOnce   bug = "creates-once"
)

// Application returns the mutants of operators whose pods break, and their correct twins. They need an environment with
// Workloads or Real, those of class partition Real, and are not among All and CorrectTwins.
func Application() []Mutant {
	var all []Mutant
	for _, c := range []class{podsMutants(), availabilityMutants(), partitionMutants()} {
		all = append(all, c.mutants()...)
	}
	return all
}

func podsMutants() class {
	return class{
		name: "pods", setup: setupQuorums, account: constantAccount("quorum"),
		flaws: []flaw{
			{degradedStays, "Condition Degraded is set when a container was restarted. Nothing resets it."},
			{twoLeaders, "The next leader gets the label while the first one is not Ready. Both have it later."},
			{joinsOnce, "A pod that is not Ready is removed from the members. It is added only when it is new."},
			{givesUpOnOOM, "A container that ran out of memory is the end: the operator reports it and does nothing more."},
			{readyOnce, "Condition Ready is set once. It stays when no pod is Ready."},
			{createsOnce, "The operator remembers the pods that it has created. An evicted pod is not created again."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) { k.Apply(newQuorum(1)) }},
			{"create a pod of others", func(k *testkit.K) {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
				pod.Spec.Containers = []corev1.Container{{Name: "other", Image: "other:1", ReadinessProbe: probe()}}
				k.Apply(pod)
			}},
			{"scale up", func(k *testkit.K) { k.Apply(newQuorum(3)) }},
			{"scale down", func(k *testkit.K) { k.Apply(newQuorum(2)) }},
		},
	}
}

func newQuorum(members int32) *v1.Quorum {
	return &v1.Quorum{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: v1.QuorumSpec{Members: members}}
}

func setupQuorums(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &quorums{operator: newOperator(mgr, b), joined: map[types.UID]bool{}, created: map[types.NamespacedName]bool{}}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Quorum{}).Owns(&corev1.Pod{}).Owns(&corev1.ConfigMap{}).
			Complete(newReconciler(r.reconcile))
	}
}

type quorums struct {
	operator

	// Memories of the mutants joins-once and creates-once. Only one reconcile runs at a time.
	joined  map[types.UID]bool            // pods that were members
	created map[types.NamespacedName]bool // pods that exist or have existed
}

func (r *quorums) reconcile(ctx context.Context, req reconcile.Request) error {
	q := &v1.Quorum{}
	if err := r.Get(ctx, req.NamespacedName, q); err != nil || !q.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	before := q.DeepCopy()
	pods, err := r.pods(ctx, q)
	if err != nil {
		return err
	}
	if r.bug == givesUpOnOOM && slices.ContainsFunc(slices.Collect(maps.Values(pods)), ranOutOfMemory) {
		return r.updateStatus(ctx, before, q, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: "OutOfMemory", Message: "a container ran out of memory",
		})
	}
	if err := r.scale(ctx, q, pods); err != nil {
		return err
	}
	ready, err := r.elect(ctx, q, pods)
	if err != nil {
		return err
	}
	if err := r.applyMembers(ctx, q, ready); err != nil {
		return err
	}
	r.setDegraded(q, pods, len(ready))
	state := readyCondition()
	if len(ready) < int(q.Spec.Members) && (r.bug != readyOnce || !meta.IsStatusConditionTrue(q.Status.Conditions, "Ready")) {
		state = metav1.Condition{
			Status: metav1.ConditionFalse, Reason: "PodsNotReady",
			Message: fmt.Sprintf("%d of %d pods are Ready", len(ready), q.Spec.Members),
		}
	}
	return r.updateStatus(ctx, before, q, state)
}

// pods returns the existing pods by name.
func (r *quorums) pods(ctx context.Context, q *v1.Quorum) (map[string]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := r.List(ctx, list, client.InNamespace(q.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		if pod := &list.Items[i]; metav1.IsControlledBy(pod, q) {
			pods[pod.Name] = pod
		}
	}
	return pods, nil
}

func podName(q *v1.Quorum, number int32) string { return fmt.Sprintf("%s-%d", q.Name, number) }

// scale creates missing pods, and deletes those that have failed or are too many. A pod that is being deleted is neither.
func (r *quorums) scale(ctx context.Context, q *v1.Quorum, pods map[string]*corev1.Pod) error {
	wanted := map[string]bool{}
	for i := range q.Spec.Members {
		name := podName(q, i)
		wanted[name] = true
		key := types.NamespacedName{Namespace: q.Namespace, Name: name}
		if pods[name] != nil || r.bug == createsOnce && r.created[key] {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: childMeta(q, name)}
		pod.Spec.Containers = []corev1.Container{{Name: "member", Image: "member:1", ReadinessProbe: probe()}}
		if err := r.apply(ctx, q, pod, func() {}); err != nil {
			return err
		}
		r.created[key] = true
	}
	for name, pod := range pods {
		if !pod.DeletionTimestamp.IsZero() || wanted[name] && pod.Status.Phase != corev1.PodFailed {
			continue
		}
		if err := r.delete(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// elect labels the leader, and returns the names of the Ready pods.
func (r *quorums) elect(ctx context.Context, q *v1.Quorum, pods map[string]*corev1.Pod) (ready []string, err error) {
	for i := range q.Spec.Members {
		pod := pods[podName(q, i)]
		if pod == nil || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		is := podIsReady(pod)
		if is {
			ready = append(ready, pod.Name)
		}
		role := "follower"
		if is && len(ready) == 1 || r.bug == twoLeaders && pod.Labels["role"] == "leader" {
			role = "leader"
		}
		if pod.Labels["role"] == role {
			continue
		}
		pod = pod.DeepCopy()
		setLabel(pod, "role", role)
		if err := r.Update(ctx, pod); err != nil {
			return nil, fmt.Errorf("labelling pod %s: %w", pod.Name, err)
		}
	}
	return ready, nil
}

// applyMembers writes the names of the Ready pods.
func (r *quorums) applyMembers(ctx context.Context, q *v1.Quorum, ready []string) error {
	members := &corev1.ConfigMap{ObjectMeta: childMeta(q, q.Name+"-members")}
	pods, err := r.pods(ctx, q)
	if err != nil {
		return err
	}
	return r.apply(ctx, q, members, func() {
		before := members.Data
		members.Data = map[string]string{}
		for _, name := range ready {
			uid := pods[name].GetUID()
			_, isMember := before[name]
			if r.bug != joinsOnce || isMember || !r.joined[uid] {
				members.Data[name] = "ready"
				r.joined[uid] = true
			}
		}
	})
}

// setDegraded sets condition Degraded.
func (r *quorums) setDegraded(q *v1.Quorum, pods map[string]*corev1.Pod, ready int) {
	degraded := metav1.Condition{
		Type: "Degraded", Status: metav1.ConditionFalse, Reason: "AllReady", Message: "all pods are Ready",
		ObservedGeneration: q.Generation,
	}
	is := ready < int(q.Spec.Members)
	if r.bug == degradedStays {
		is = slices.ContainsFunc(slices.Collect(maps.Values(pods)), wasRestarted)
	}
	if is {
		degraded.Status = metav1.ConditionTrue
		degraded.Reason = "PodsNotReady"
		degraded.Message = "a pod has a problem"
	}
	meta.SetStatusCondition(&q.Status.Conditions, degraded)
}

// probe returns a probe for real nodes. A paused server does not answer it.
func probe() *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)},
	}}
}

func podIsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func wasRestarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 })
}

func ranOutOfMemory(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		last := c.LastTerminationState.Terminated
		return last != nil && last.Reason == "OOMKilled"
	})
}
