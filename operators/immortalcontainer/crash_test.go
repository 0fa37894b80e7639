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

var errCrashed = errors.New("the process is dead")

// crashTransport lets an operator make a number of writes and then simulates a crash. The last write is lost before it
// reaches the server, or its response is lost. Later requests fail.
type crashTransport struct {
	next         http.RoundTripper
	writes       atomic.Int64
	loseResponse bool // lose the response instead of the request
	crashed      chan struct{}
}

func (c *crashTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-c.crashed:
		return nil, errCrashed
	default:
	}
	if r.Method == http.MethodGet {
		return c.next.RoundTrip(r)
	}
	switch left := c.writes.Add(-1); {
	case left > 0:
		return c.next.RoundTrip(r)
	case left < 0:
		return nil, errCrashed
	}
	defer close(c.crashed)
	if c.loseResponse {
		if resp, err := c.next.RoundTrip(r); err == nil {
			_ = resp.Body.Close()
		}
	}
	return nil, errCrashed
}

// crashAfterWrites returns a configuration that crashes at the n-th write.
func crashAfterWrites(cfg *rest.Config, n int64, loseResponse bool) (*rest.Config, *crashTransport) {
	cfg = rest.CopyConfig(cfg)
	c := &crashTransport{loseResponse: loseResponse, crashed: make(chan struct{})}
	c.writes.Store(n)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		c.next = next
		return c
	})
	return cfg, c
}

// watchPods watches the pods of the test's namespace. The returned function waits for the pod with the UID last; it
// returns the greatest number of simultaneous pods and the number of all pods.
func watchPods(t *testing.T, k *testkit.K) func(last types.UID) (most, all int) {
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
				t.Fatalf("the watch of the pods ended before the event of pod %s", last)
			}
			pod, ok := e.Object.(*corev1.Pod)
			switch {
			case !ok:
			case e.Type == watch.Added:
				seen[pod.UID] = true
				alive[pod.UID] = true
			case e.Type == watch.Deleted:
				delete(alive, pod.UID)
			}
			most = max(most, len(alive))
		}
		return most, len(seen)
	}
}

// checkStatus returns an error unless the status is that of the running pod; it may be older than the crash.
func checkStatus(ctx context.Context, k *testkit.K, ic *v1alpha1.ImmortalContainer, pod *corev1.Pod) error {
	for _, o := range []client.Object{ic, pod} {
		if err := k.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
	}
	if ic.Status.PodUID != pod.UID || pod.DeletionTimestamp != nil || !conditions.IsTrue(ic, conditions.Ready) {
		return fmt.Errorf("the status has pod %s, and there is %s", ic.Status.PodUID, pod.UID)
	}
	return nil
}

// The operator crashes at each of its writes in turn, before and after the server carried it out, and the pod is deleted
// meanwhile. In the end startTimes is the number of all pods.
func TestStartTimesIsExactAfterCrash(t *testing.T) {
	t.Parallel()
	for _, loseResponse := range []bool{false, true} {
		for n := int64(1); n <= 8; n++ {
			t.Run(fmt.Sprintf("write %d, answer lost %t", n, loseResponse), func(t *testing.T) {
				t.Parallel()
				k := testkit.New(t)
				countPods := watchPods(t, k)
				cfg, crash := crashAfterWrites(k.ServiceAccount(""), n, loseResponse)
				op := startAs(k, cfg)
				ic := newContainer("a")
				k.Apply(ic)
				pod := podOf(k, "a")
				k.Wait("the operator dies", func(ctx context.Context) error {
					select {
					case <-crash.crashed:
						return nil
					default:
						// Cause writes until the crash.
						_ = client.IgnoreNotFound(k.Client.Delete(ctx, pod))
						return errors.New("it has not crashed")
					}
				})
				op.Kill()
				if n%2 == 0 {
					_ = client.IgnoreNotFound(k.Client.Delete(k.Context(), pod))
				}
				start(k)
				k.Wait("the status has the running pod", func(ctx context.Context) error { return checkStatus(ctx, k, ic, pod) })
				k.Delete(pod)
				before := ic.Status.StartTimes
				more := func(ic *v1alpha1.ImmortalContainer) bool { return ic.Status.StartTimes > before }
				k.Eventually(ic, testkit.Ready(), testkit.Match("one more start", more))
				if _, pods := countPods(ic.Status.PodUID); ic.Status.StartTimes != int64(pods) {
					t.Errorf("startTimes %d, and %d pods existed", ic.Status.StartTimes, pods)
				}
			})
		}
	}
}
