package configrollout_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/testkit"
)

func oneAtATime(o *configrollout.Options) { o.MaxConcurrentPerNamespace = 1 }

// A terminating workload that is kept by a foreign finalizer occupies no slot.
func TestTerminatingTakesNoSlot(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k, oneAtATime)
	k.Apply(configMap("conf", "a", "1"))
	k.Apply(configMap("next", "a", "1"))
	k.Apply(configMap("other", "a", "1"))
	rolling, last := deployment("a-rolling", "conf"), deployment("c-last", "other")
	waiting := deployment("b-waiting", "next", "priority", "1")
	for _, d := range []*appsv1.Deployment{rolling, waiting} {
		d.Finalizers = []string{"example.com/slow"}
	}
	adopt(k, rolling, waiting, last)
	k.Kubelet.DelayReadiness("app=a-rolling")
	change(k, "conf", "a", "2")
	k.Eventually(rolling, rolledFrom(""))
	change(k, "next", "a", "2") // the only slot is occupied
	k.Eventually(waiting, isPending())
	change(k, "other", "a", "2")
	k.Eventually(last, isPending())
	k.Delete(waiting)
	k.Delete(rolling)
	k.Eventually(last, rolledFrom(""), result("Completed"))
	for _, d := range []*appsv1.Deployment{rolling, waiting} {
		k.Update(d, func() { d.Finalizers = nil })
	}
}

// A workload with rejected writes occupies no slot.
func TestRejectedWriteTakesNoSlot(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var refuse atomic.Bool
	var refused atomic.Int32
	k.Run(newOperator(t, oneAtATime), testkit.WithTransport(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/deployments/first") && refuse.Load() {
				refused.Add(1)
				return forbidden(r), nil
			}
			return next.RoundTrip(r)
		})
	}))
	k.Apply(configMap("conf", "a", "1"))
	first, second := deployment("first", "conf", "priority", "1"), deployment("second", "conf", "quiet-period", "2s")
	adopt(k, first, second)
	k.Update(first, func() { first.Spec.Paused = true })
	change(k, "conf", "a", "2")
	k.Eventually(first, isPending(), state("Paused"))
	refuse.Store(true)
	k.Update(first, func() { first.Spec.Paused = false })
	k.Eventually(second, rolledFrom(""), result("Completed"))
	if note := waitEvent(k, first, "WriteRefused"); !strings.Contains(note, "a policy refuses it") {
		t.Errorf("it is told as %q", note)
	}
	if n := refused.Load(); n > 30 { // 20 ms, 40 ms, 80 ms...
		t.Errorf("it was tried %d times", n)
	}
	refuse.Store(false)
	k.Eventually(first, rolledFrom(""), result("Completed"))
}

// forbidden returns the response of an API server that denies the request.
func forbidden(r *http.Request) *http.Response {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,` +
		`"message":"a policy refuses it"}`
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(status)),
	}
}

// A rollout with a deleted ConfigMap keeps its deadline.
func TestConfigMapDeletedDuringARollout(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k, oneAtATime, func(o *configrollout.Options) { o.RolloutDeadline = 2 * time.Second })
	conf := configMap("conf", "a", "1")
	k.Apply(conf)
	k.Apply(configMap("other", "a", "1"))
	set, d := statefulSet("set", "conf"), deployment("b", "other")
	adopt(k, set, d)
	k.Kubelet.DelayReadiness("app=set")
	change(k, "conf", "a", "2")
	k.Eventually(set, rolledFrom(""))
	k.Delete(conf)
	change(k, "other", "a", "2")
	k.Eventually(d, rolledFrom(""), result("Completed"))
	k.Eventually(set, state("ConfigMissing"), result("Failed"))
}
