package fault_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/podplane"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// partitionedRun is a run with pods, and the plane of their nodes. It records what a plan does.
type partitionedRun struct {
	fault.Run
	podplane.Plane

	space    *space.Space
	operator *intercept.Interceptor
	pods     []*corev1.Pod
	err      error // of the partition
	restored error // of its end
	affected int   // the number of the pod that needs one of another node, or -1
	deleted  bool  // whether that pod is being deleted
	isTrue   bool  // whether the status of the custom resources is true

	limit   time.Duration
	actions []string
	changes []history.Change
	untried string
}

func (r *partitionedRun) Partition(_ context.Context, pod types.NamespacedName) (func(context.Context) error, error) {
	if r.err != nil {
		return nil, r.err
	}
	r.actions = append(r.actions, "partition "+pod.Name)
	if r.deleted {
		r.pods[r.affected].DeletionTimestamp = new(metav1.Now())
	}
	r.setReady(false)
	return func(context.Context) error {
		r.actions = append(r.actions, "connect")
		r.setReady(true)
		return r.restored
	}, nil
}

func (r *partitionedRun) setReady(ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	if r.affected >= 0 {
		r.pods[r.affected].Status.Conditions[0].Status = status
		r.changes = append(r.changes, r.CurrentObjects()[r.affected])
	}
}

func (r *partitionedRun) Changes() []history.Change { return slices.Clone(r.changes) }

func (r *partitionedRun) CurrentObjects() []history.Change {
	var all []history.Change
	for _, pod := range r.pods {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			panic(err)
		}
		c := history.Change{Object: &unstructured.Unstructured{Object: object}}
		c.Resource.Resource = "pods"
		all = append(all, c)
	}
	return all
}

func (r *partitionedRun) Pod(p baseline.Pod) (history.Change, bool) {
	all := r.CurrentObjects()
	i := slices.IndexFunc(all, func(c history.Change) bool { return "pods/"+c.Object.GetName() == p.Name })
	return all[i], true
}

func (r *partitionedRun) Space() *space.Space              { return r.space }
func (r *partitionedRun) Operator() *intercept.Interceptor { return r.operator }
func (r *partitionedRun) LogFault(string)                  {}
func (r *partitionedRun) MarkUntried(reason string)        { r.untried = "untried: " + reason }
func (r *partitionedRun) Discard(reason string)            { r.untried = "discarded: " + reason }

func (r *partitionedRun) AwaitFor(limit time.Duration, done func() bool) bool {
	r.limit = limit
	return done()
}

func (r *partitionedRun) Await(done func() bool) {
	r.actions = append(r.actions, fmt.Sprint("ready ", done()))
}

func (r *partitionedRun) AwaitTrueStatus(int) bool {
	r.actions = append(r.actions, "status")
	return r.isTrue
}

func (r *partitionedRun) Converge(int) bool {
	r.actions = append(r.actions, "converge")
	return true
}

// podWithProbe returns a Ready pod.
func podWithProbe(name string, probe *corev1.Probe) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", ReadinessProbe: probe}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

// A partition counts if a pod of the run notices it, also another one than that of the plan. It always ends.
func TestPartition(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		affected      int
		deleted       bool
		isTrue        bool
		err, restored error
		actions       []string
		untried       string
	}{
		"the pod is not Ready": {
			affected: 0, isTrue: true, actions: []string{"partition a", "status", "connect", "ready true", "converge"},
		},
		"another pod is not Ready": {
			affected: 1, isTrue: true, actions: []string{"partition a", "status", "connect", "ready true", "converge"},
		},
		"the status is not true": {affected: 1, actions: []string{"partition a", "status", "connect"}},
		"all pods stay Ready": {
			affected: -1, isTrue: true, actions: []string{"partition a", "connect"},
			untried: "discarded: no pod of the run became not Ready within 15s",
		},
		"a pod ends": {
			affected: 1, deleted: true, isTrue: true, actions: []string{"partition a", "connect"},
			untried: "discarded: no pod of the run became not Ready within 15s",
		},
		"it does not end": {
			affected: 0, isTrue: true, restored: errors.New("no answer"), actions: []string{"partition a", "status", "connect"},
			untried: "discarded: the fault cannot be ended: no answer",
		},
		"nodes without packets": {err: podplane.ErrUnsupported, untried: "untried: these nodes cannot do that"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &partitionedRun{
				space: space.New(t.Context(), name), operator: intercept.New(nil), affected: test.affected, isTrue: test.isTrue,
				deleted: test.deleted, err: test.err, restored: test.restored,
				pods: []*corev1.Pod{
					podWithProbe("a", nil), podWithProbe("b", &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 3, TimeoutSeconds: 2}),
				},
			}
			r.space.Pods = r
			r.changes = r.CurrentObjects()
			r.changes[1].Object = withoutReady(r.changes[1].Object) // before the fault
			partitionPlan(t, "a").AfterIdle(r, 0)
			if diff := cmp.Diff(test.actions, r.actions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if test.untried == "" && r.untried != "" || !strings.HasPrefix(r.untried, test.untried) {
				t.Errorf("the run is %q, want %q", r.untried, test.untried)
			}
		})
	}
}

// withoutReady returns an earlier version of a pod.
func withoutReady(pod *unstructured.Unstructured) *unstructured.Unstructured {
	earlier := pod.DeepCopy()
	unstructured.RemoveNestedField(earlier.Object, "status", "conditions")
	return earlier
}

// partitionPlan returns the plan for one pod after the first step.
func partitionPlan(t *testing.T, pod string) fault.Plan {
	t.Helper()
	plans := fault.Plans(&fault.Input{
		Steps:    []string{"create"},
		Baseline: &baseline.Baseline{Pods: [][]baseline.Pod{{{Name: "pods/" + pod, Containers: []string{"main"}}}}},
	})
	i := slices.IndexFunc(plans, func(p fault.Plan) bool { return p.Fault == "application-partitioned" })
	if i < 0 {
		t.Fatal("there is no plan")
	}
	return plans[i]
}

// The wait for a pod that is not Ready follows from the slowest readiness probe of a Ready pod of the run.
func TestPartitionWaitsForProbes(t *testing.T) {
	t.Parallel()
	probe := func(period, failures, timeout int32) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: timeout}
	}
	task := podWithProbe("task", probe(5, 5, 5))
	task.Spec.RestartPolicy = corev1.RestartPolicyNever
	starting := podWithProbe("starting", probe(5, 5, 5))
	starting.Status.Conditions = nil
	sidecar := podWithProbe("sidecar", nil)
	sidecar.Spec.InitContainers = []corev1.Container{{Name: "proxy", ReadinessProbe: probe(2, 4, 3)}}
	for name, test := range map[string]struct {
		others []*corev1.Pod
		want   time.Duration
	}{
		"no probe": {want: 10 * time.Second},
		"the slowest of two": {
			[]*corev1.Pod{podWithProbe("b", probe(1, 1, 1)), podWithProbe("c", probe(10, 3, 1))}, 41 * time.Second,
		},
		"one of a sidecar":         {[]*corev1.Pod{sidecar}, 21 * time.Second},
		"one of minutes":           {[]*corev1.Pod{podWithProbe("b", probe(60, 10, 1))}, time.Minute},
		"neither tasks nor starts": {[]*corev1.Pod{task, starting}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &partitionedRun{
				space: space.New(t.Context(), name), operator: intercept.New(nil), affected: -1,
				pods: append([]*corev1.Pod{podWithProbe("a", nil)}, test.others...),
			}
			r.space.Pods = r
			partitionPlan(t, "a").AfterIdle(r, 0)
			if r.limit != test.want {
				t.Errorf("the plan waits for %s, want %s", r.limit, test.want)
			}
		})
	}
}
