package e2e

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// counting keeps one pod and counts in its status how many pods there ever were.
func counting(_ context.Context, p *pass) error {
	o := pod(p.Object, p.Object.Name)
	counted := false
	if live, ok := sdk.Live(p, o); ok {
		if counted = p.Object.Status.UID == string(live.UID); !counted {
			p.Object.Status.UID = string(live.UID)
			p.Object.Status.Seen++
		}
	}
	if p.Object.Spec.Extra { // asks for no pod at all
		return nil
	}
	sdk.Apply(p, o, sdk.Tracked(counted), sdk.ReadyWhen(func(client.Object) (bool, string) { return true, "" }))
	return nil
}

// countPods counts, as a witness, how many pods of that name there ever are.
func countPods(t *testing.T, k *testkit.K, name string) func() int64 {
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
	return func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return int64(len(uids))
	}
}

// Pods are deleted and the operator is killed, at random moments and in any order. Each pod is counted once.
func TestTrackedPodsAreCountedExactlyOnce(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(counting)
	op.Owns = []client.Object{&corev1.Pod{}}
	running := start(k, op)
	witness := countPods(t, k, "a")
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
			<-time.After(time.Duration(rand.IntN(30)) * time.Millisecond) // somewhere in the middle of what follows
			running.Kill()
		}
		if round%3 == 0 { // while nobody is there
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
	if want := witness(); s.Status.Seen != want || want < 2 {
		t.Errorf("%d pods were counted, and there were %d", s.Status.Seen, want)
	}
	k.Eventually(o, finalizers())
}

// A pod that nobody has counted yet stays when it is deleted, and goes once it is counted.
func TestTrackedPodWaitsForItsCount(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(counting)
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Match("counted", func(s *site.Site) bool { return s.Status.Seen == 1 }))
	o := named(&corev1.Pod{}, s.Name)
	k.Eventually(o, finalizers())
	quiet(k, running, still)
	running.Stop()

	// Another pod takes its place while nobody counts: as if the operator had died right after it made it.
	k.Delete(o)
	k.Eventually(o, testkit.Gone())
	o = pod(s, s.Name)
	o.Labels = map[string]string{sdk.ManagedByLabel: operatorName}
	o.OwnerReferences = reference(s, "e2e.homeostat.dev/v1", "Site", true)
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

// The pod leaves the plan: first the status in which it is counted, then its release, then its end.
func TestTrackedPodLeavesThePlan(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	g := newGate()
	running := start(k, operator(func(ctx context.Context, p *pass) error {
		if _, ok := sdk.Live(p, pod(p.Object, p.Object.Name)); ok {
			g.pass() // the pod exists and is not counted
		}
		return counting(ctx, p)
	}))
	s := newSite("a")
	k.Apply(s)
	g.reached(k)
	running.Recorder().Reset()
	k.Update(s, func() { s.Spec.Extra = true })
	g.open()
	k.Eventually(named(&corev1.Pod{}, s.Name), testkit.Gone())
	k.Eventually(s, testkit.Ready(), testkit.Match("counted", func(s *site.Site) bool { return s.Status.Seen == 1 }))
	got := slices.DeleteFunc(sent(k, running), func(r string) bool {
		return r == "patch sites.e2e.homeostat.dev/status a -> 409" // the spec changed under the first pass
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

// Nobody will ever count the pods of an object that is gone. They must not be kept for it.
func TestTrackedPodOfAnObjectThatIsGone(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"while running": false, "while down": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			op := operator(func(_ context.Context, p *pass) error {
				sdk.Apply(p, pod(p.Object, p.Object.Name), sdk.Tracked(false)) // never counted
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
			// The garbage collector may have been faster.
			if err := k.Client.Delete(k.Context(), o); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if down {
				running = start(k, op)
			}
			k.Eventually(o, testkit.Gone())
			quiet(k, running, still)
		})
	}
}

// An object in foreground deletion waits for its children, and they for it.
func TestTrackedPodOfAnObjectInForegroundDeletion(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k, operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, pod(p.Object, p.Object.Name), sdk.Tracked(false))
		return nil
	}))
	s := newSite("a")
	s.Finalizers = []string{theirFinalizer} // stands for the garbage collector's
	k.Apply(s)
	o := named(&corev1.Pod{}, s.Name)
	k.Eventually(o, finalizers(ourFinalizer))
	k.Delete(s)
	k.Delete(o)
	k.Eventually(o, testkit.Gone())
	mustPatch(t, k, s, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
}
