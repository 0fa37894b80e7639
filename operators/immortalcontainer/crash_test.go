package immortalcontainer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

var errDead = errors.New("the process is dead")

// fuse lets an operator make a number of writes. The next one is the last: it is lost on its way to the server, or its
// answer is lost on its way back, and nothing leaves the operator any more.
type fuse struct {
	next   http.RoundTripper
	writes atomic.Int64
	answer bool // lose the answer instead of the request
	blown  chan struct{}
}

func (f *fuse) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-f.blown:
		return nil, errDead
	default:
	}
	if r.Method == http.MethodGet {
		return f.next.RoundTrip(r)
	}
	switch left := f.writes.Add(-1); {
	case left > 0:
		return f.next.RoundTrip(r)
	case left < 0:
		return nil, errDead
	}
	defer close(f.blown)
	if f.answer {
		if resp, err := f.next.RoundTrip(r); err == nil {
			_ = resp.Body.Close()
		}
	}
	return nil, errDead
}

// burn returns a configuration that is good for n writes.
func burn(cfg *rest.Config, n int64, answer bool) (*rest.Config, *fuse) {
	cfg = rest.CopyConfig(cfg)
	f := &fuse{answer: answer, blown: make(chan struct{})}
	f.writes.Store(n)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		f.next = next
		return f
	})
	return cfg, f
}

// census follows the pods of the test's namespace. When it has heard of the last one, it returns how many there were at
// most at a time, and how many ever.
func census(t *testing.T, k *testkit.K) func(last types.UID) (most, all int) {
	t.Helper()
	w, err := k.Client.Watch(k.Context(), &corev1.PodList{}, client.InNamespace(k.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return func(last types.UID) (most, all int) {
		seen, alive := map[types.UID]bool{}, map[types.UID]bool{}
		for !seen[last] {
			e, open := <-w.ResultChan()
			if !open {
				t.Fatalf("the watch of the pods ended before it told of pod %s", last)
			}
			pod, ok := e.Object.(*corev1.Pod)
			switch {
			case !ok:
			case e.Type == watch.Added:
				seen[pod.UID], alive[pod.UID] = true, true
			case e.Type == watch.Deleted:
				delete(alive, pod.UID)
			}
			most = max(most, len(alive))
		}
		return most, len(seen)
	}
}

// tells returns an error unless the status is that of the pod which runs now: it may be from before the operator's death.
func tells(ctx context.Context, k *testkit.K, ic *v1alpha1.ImmortalContainer, pod *corev1.Pod) error {
	for _, o := range []client.Object{ic, pod} {
		if err := k.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
	}
	if ic.Status.PodUID != pod.UID || pod.DeletionTimestamp != nil || !conditions.IsTrue(ic, conditions.Ready) {
		return fmt.Errorf("the status tells of pod %s, and there is %s", ic.Status.PodUID, pod.UID)
	}
	return nil
}

// The operator dies at every one of its writes in turn, before and after the server carried it out, and the pod is
// deleted while it is down. In the end startTimes is the number of pods that ever existed.
func TestStartTimesIsExactWhereverTheOperatorDies(t *testing.T) {
	t.Parallel()
	for _, answer := range []bool{false, true} {
		for n := int64(1); n <= 8; n++ {
			t.Run(fmt.Sprintf("write %d, answer lost %t", n, answer), func(t *testing.T) {
				t.Parallel()
				k := testkit.New(t)
				existed := census(t, k)
				cfg, f := burn(k.ServiceAccount(""), n, answer)
				op := startAs(k, cfg)
				ic := newContainer("a")
				k.Apply(ic)
				pod := podOf(k, "a")
				k.Wait("the operator dies", func(ctx context.Context) error {
					select {
					case <-f.blown:
						return nil
					default:
						// Give it something to do until it does.
						_ = client.IgnoreNotFound(k.Client.Delete(ctx, pod))
						return errors.New("it lives")
					}
				})
				op.Kill()
				if n%2 == 0 {
					_ = client.IgnoreNotFound(k.Client.Delete(k.Context(), pod))
				}
				start(k)
				k.Wait("a pod that lives is told", func(ctx context.Context) error { return tells(ctx, k, ic, pod) })
				k.Delete(pod)
				before := ic.Status.StartTimes
				more := func(ic *v1alpha1.ImmortalContainer) bool { return ic.Status.StartTimes > before }
				k.Eventually(ic, testkit.Ready(), testkit.Match("one more start", more))
				if _, pods := existed(ic.Status.PodUID); ic.Status.StartTimes != int64(pods) {
					t.Errorf("startTimes %d, and %d pods existed", ic.Status.StartTimes, pods)
				}
			})
		}
	}
}
