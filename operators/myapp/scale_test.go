package myapp_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit"
)

// 1,000 apps without pods become Ready; then the operator is idle; then it is restarted and is idle again. The test has a
// control plane of its own and runs alone. With -short there are 100 apps.
func TestThousandIdleWithoutRequests(t *testing.T) {
	n, quietPeriod := 1000, 30*time.Second
	if testing.Short() {
		n, quietPeriod = 100, 3*time.Second
	}
	k := testkit.New(t, testkit.Private())
	k.Timeout = 5 * time.Minute
	op := start(k)
	began := time.Now()
	for i := range n {
		app := newMyApp(fmt.Sprintf("app-%04d", i))
		app.Namespace = k.Namespace
		app.Spec.Replicas = new(int32(0))
		app.Spec.Service.Enabled = true
		if err := k.Client.Create(k.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		k.Eventually(newMyApp(fmt.Sprintf("app-%04d", i)), testkit.Ready())
	}
	t.Logf("%d apps were Ready after %s, by %d writes", n, time.Since(began), len(writes(op)))
	waitIdle(k, op)
	expectNoRequests(t, k, op, quietPeriod)
	op.Stop()
	again := start(k)
	waitIdle(k, again)
	if w := writes(again); len(w) > 0 {
		t.Errorf("writes after a restart: %v", w)
	}
	expectNoRequests(t, k, again, quietPeriod/3)
}

// expectNoRequests fails the test if the operator sends any request within that time.
func expectNoRequests(t *testing.T, k *testkit.K, op *testkit.Instance, during time.Duration) {
	t.Helper()
	before := len(op.Requests())
	select {
	case <-k.Context().Done():
	case <-time.After(during):
	}
	for _, r := range op.Requests()[before:] {
		t.Errorf("request at steady state: %s", r)
	}
}
