package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// countingReconcile maintains one pod and counts in the status all pods that ever existed.
func countingReconcile(_ context.Context, p *pass) error {
	o := pod(p.Object, p.Object.Name)
	counted := false
	if live, ok := sdk.Live(p, o); ok {
		if counted = p.Object.Status.UID == string(live.UID); !counted {
			p.Object.Status.UID = string(live.UID)
			p.Object.Status.Seen++
		}
	}
	if p.Object.Spec.Extra { // the site wants no pod
		return nil
	}
	sdk.Apply(p, o, sdk.HoldUntil(counted), sdk.ReadyWhen(func(client.Object) (bool, string) { return true, "" }))
	return nil
}

// countPods watches pods independently of the operator. The returned function returns the number of pods of the name up to
// one of them. It waits for that one, because this watch may be later than others.
func countPods(t *testing.T, k *testkit.K, name string) func(last types.UID) int64 {
	t.Helper()
	w, err := k.Client.Watch(k.Context(), &corev1.PodList{}, client.InNamespace(k.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	var mu sync.Mutex
	uids := map[types.UID]bool{}
	go func() {
		for event := range w.ResultChan() {
			if o, ok := event.Object.(*corev1.Pod); ok && o.Name == name && event.Type == watch.Added {
				mu.Lock()
				uids[o.UID] = true
				mu.Unlock()
			}
		}
	}()
	return func(last types.UID) (n int64) {
		k.Wait("the watch has the last pod", func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if n = int64(len(uids)); !uids[last] {
				return fmt.Errorf("it has %d others", n)
			}
			return nil
		})
		return n
	}
}

// Pods are deleted and the operator is killed, at random moments and in any order. Each pod is counted exactly once.
func TestTrackedPodsAreCountedExactlyOnce(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(countingReconcile)
	op.Owns = []client.Object{&corev1.Pod{}}
	running := start(k, op)
	created := countPods(t, k, "a")
	s := newSite("a")
	k.Apply(s)
	o := named(&corev1.Pod{}, s.Name)
	k.Eventually(o, testkit.Exists())
	for round := range 12 {
		down := rand.IntN(2) == 0
		if down {
			running.Kill()
		}
		if err := k.Client.Delete(k.Context(), o); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		if !down {
			<-time.After(time.Duration(rand.IntN(30)) * time.Millisecond) // somewhere during the following reconcile
			running.Kill()
		}
		if round%3 == 0 { // while the operator is down
			if err := k.Client.Delete(k.Context(), o); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
		running = start(k, op)
	}
	k.Eventually(o, testkit.Match("a new pod", func(o *corev1.Pod) bool { return o.DeletionTimestamp == nil }))
	k.Eventually(s, testkit.Ready(), testkit.Match("which is counted", func(s *site.Site) bool {
		return s.Status.UID == string(get(k, named(&corev1.Pod{}, s.Name)).UID)
	}))
	if want := created(types.UID(s.Status.UID)); s.Status.Seen != want || want < 2 {
		t.Errorf("%d pods were counted, and %d were created", s.Status.Seen, want)
	}
	k.Eventually(o, finalizers())
}

// A pod that is deleted before it was counted stays until it is counted.
func TestTrackedPodWaitsUntilCounted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(countingReconcile)
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Match("counted", func(s *site.Site) bool { return s.Status.Seen == 1 }))
	o := named(&corev1.Pod{}, s.Name)
	k.Eventually(o, finalizers())
	waitIdle(k, running, quietPeriod)
	running.Stop()

	// Another pod replaces it while the operator is down, as if the operator had crashed right after the creation.
	k.Delete(o)
	k.Eventually(o, testkit.Gone())
	o = pod(s, s.Name)
	o.Labels = map[string]string{sdk.ManagedByLabel: operatorName}
	o.OwnerReferences = ownerReference(s, "e2e.homeostat.dev/v1", "Site", true)
	o.Finalizers = []string{ourFinalizer}
	k.Apply(o)
	k.Delete(o)
	if k.Get(o); o.DeletionTimestamp == nil {
		t.Fatal("the pod is not being deleted")
	}
	start(k, op)
	k.Eventually(o, testkit.Gone())
	k.Eventually(s, testkit.Match("both and the next", func(s *site.Site) bool { return s.Status.Seen == 3 }))
}

// When the pod leaves the plan, the order of writes is: the status with the count, the finalizer, the deletion.
func TestTrackedPodLeavesThePlan(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	g := newBarrier()
	running := start(k, operator(func(ctx context.Context, p *pass) error {
		if _, ok := sdk.Live(p, pod(p.Object, p.Object.Name)); ok {
			g.arrive() // the pod exists and is not counted yet
		}
		return countingReconcile(ctx, p)
	}))
	s := newSite("a")
	k.Apply(s)
	g.waitReached(k)
	running.Recorder().Reset()
	k.Update(s, func() { s.Spec.Extra = true })
	g.open()
	k.Eventually(named(&corev1.Pod{}, s.Name), testkit.Gone())
	k.Eventually(s, testkit.Ready(), testkit.Match("counted", func(s *site.Site) bool { return s.Status.Seen == 1 }))
	got := slices.DeleteFunc(sent(k, running), func(r string) bool {
		return r == "patch sites.e2e.homeostat.dev/status a -> 409" // the spec changed during the first reconcile
	})
	want := []string{
		"patch sites.e2e.homeostat.dev/status a -> 200",
		"patch pods a -> 200",
		"delete pods a -> 200",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// podChangedAtAdmission returns a pod that the API server changes only at its creation: it adds the value of the label to
// the selector. To apply the whole pod again would change an immutable field.
func podChangedAtAdmission(s *site.Site) *corev1.Pod {
	o := pod(s, s.Name)
	o.Labels = map[string]string{"controller": s.Name}
	o.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 1,
			PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey:    corev1.LabelHostname,
				LabelSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{"site": s.Name}},
				MatchLabelKeys: []string{"controller"},
			},
		}},
	}}
	return o
}

// The release of a child only removes the finalizer. A child with another value of an immutable field is therefore kept.
func TestReleaseDoesNotApplyAgain(t *testing.T) {
	t.Parallel()
	always := sdk.ReadyWhen(func(client.Object) (bool, string) { return true, "" })
	for name, c := range map[string]struct {
		reason string
		child  func(*pass) client.Object
		opts   []sdk.ApplyOption
	}{
		"altered at creation": {
			reason: "the API server would reject the applied value",
			child:  func(p *pass) client.Object { return podChangedAtAdmission(p.Object) },
			opts:   []sdk.ApplyOption{sdk.OnImmutable(sdk.Recreate)},
		},
		"create-only": {
			reason: "a create-only child is never changed, even if the next reconcile computes other values",
			child: func(p *pass) client.Object {
				o := pod(p.Object, p.Object.Name)
				o.Annotations = map[string]string{"computed-at": p.Now.String()}
				return o
			},
			opts: []sdk.ApplyOption{sdk.CreateOnly()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			g := newBarrier()
			op := operator(func(_ context.Context, p *pass) error {
				o := c.child(p)
				live, ok := sdk.Live(p, pod(p.Object, p.Object.Name))
				counted := ok && p.Object.Status.UID == string(live.UID)
				if ok && !counted {
					g.arrive()
					p.Object.Status.UID = string(live.UID)
					p.Object.Status.Seen++
				}
				sdk.Apply(p, o, append([]sdk.ApplyOption{sdk.HoldUntil(counted), always}, c.opts...)...)
				return nil
			})
			running := start(k, op)
			s := newSite("a")
			k.Apply(s)
			o := named(&corev1.Pod{}, s.Name)
			k.Eventually(o, finalizers(ourFinalizer))
			first := o.UID
			g.open()
			k.Eventually(o, finalizers())
			converged(k, running, s)
			want := []string{
				"apply pods a -> 201",
				"patch sites.e2e.homeostat.dev/status a -> 200",
				"patch sites.e2e.homeostat.dev/status a -> 200", // the first reports that there is a pod, the second counts it
				"patch pods a -> 200",
			}
			if diff := cmp.Diff(want, sent(k, running)); diff != "" {
				t.Errorf("%s: requests (-want +got):\n%s", c.reason, diff)
			}
			if k.Get(o); o.UID != first || s.Status.Seen != 1 {
				t.Errorf("%s: pod %s replaces %s; %d were counted", c.reason, o.UID, first, s.Status.Seen)
			}
			running.Kill()
			running = start(k, op)
			annotate(k, s, "reconcile", "again")
			if got := sent(k, running); len(got) > 0 {
				t.Errorf("%s: requests after a restart: %v", c.reason, got)
			}
		})
	}
}

// The finalizer is removed before the child is counted. One request restores it and sends no other field.
func TestLostFinalizerOfATrackedChild(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sdk.ApplyOption{
		"applied": {sdk.OnImmutable(sdk.Recreate)}, "create-only": {sdk.CreateOnly()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			running := start(k, operator(func(_ context.Context, p *pass) error {
				opts := append(slices.Clone(opts), sdk.ReadyWhen(func(client.Object) (bool, string) { return true, "" }),
					sdk.HoldUntil(p.Object.Spec.Extra))
				sdk.Apply(p, podChangedAtAdmission(p.Object), opts...)
				return nil
			}))
			s := newSite("a")
			k.Apply(s)
			converged(k, running, s)
			o := get(k, named(&corev1.Pod{}, s.Name))
			running.Recorder().Reset()
			mustPatch(t, k, o, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
			k.Eventually(o, finalizers(ourFinalizer))
			k.Update(s, func() { s.Spec.Extra = true })
			k.Eventually(o, finalizers())
			got := slices.DeleteFunc(sent(k, running), func(r string) bool { return strings.Contains(r, "/status") })
			if diff := cmp.Diff([]string{"patch pods a -> 200", "patch pods a -> 200"}, got); diff != "" {
				t.Errorf("requests on the pod (-want +got):\n%s", diff)
			}
		})
	}
}

// Pods of a deleted object will never be counted, so that they must not be held.
func TestTrackedPodOfDeletedObject(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"while running": false, "while down": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			op := operator(func(_ context.Context, p *pass) error {
				sdk.Apply(p, pod(p.Object, p.Object.Name), sdk.HoldUntil(false)) // never counted
				return nil
			})
			running := start(k, op)
			s := newSite("a")
			k.Apply(s)
			o := named(&corev1.Pod{}, s.Name)
			k.Eventually(o, finalizers(ourFinalizer))
			if down {
				running.Stop()
			}
			k.Delete(s)
			k.Eventually(s, testkit.Gone())
			// The garbage collector may have deleted the pod already.
			if err := k.Client.Delete(k.Context(), o); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if down {
				running = start(k, op)
			}
			k.Eventually(o, testkit.Gone())
			waitIdle(k, running, quietPeriod)
		})
	}
}

// An object in foreground deletion waits for its children, and held children must not wait for the object.
func TestTrackedPodDuringForegroundDeletion(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k, operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, pod(p.Object, p.Object.Name), sdk.HoldUntil(false))
		return nil
	}))
	s := newSite("a")
	s.Finalizers = []string{theirFinalizer} // in place of the garbage collector's finalizer
	k.Apply(s)
	o := named(&corev1.Pod{}, s.Name)
	k.Eventually(o, finalizers(ourFinalizer))
	k.Delete(s)
	k.Delete(o)
	k.Eventually(o, testkit.Gone())
	mustPatch(t, k, s, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
}
