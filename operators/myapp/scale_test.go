package myapp_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit"
)

// 1,000 apps become Ready, without pods, which would be the nodes' work and not the operator's; then the operator is silent;
// then it is restarted and is silent again. It has a control plane of its own and runs alone. With -short there are 100.
func TestAThousandCostNothingOnceTheyRun(t *testing.T) { //nolint:paralleltest // see above
	n, silence := 1000, 30*time.Second
	if testing.Short() {
		n, silence = 100, 3*time.Second
	}
	k := testkit.New(t, testkit.Private())
	k.Timeout = 5 * time.Minute
	op := start(k)
	began := time.Now()
	for i := range n {
		app := newMyApp(fmt.Sprintf("app-%04d", i))
		app.Namespace, app.Spec.Replicas, app.Spec.Service.Enabled = k.Namespace, new(int32(0)), true
		if err := k.Client.Create(k.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		k.Eventually(newMyApp(fmt.Sprintf("app-%04d", i)), testkit.Ready())
	}
	t.Logf("%d apps were Ready after %s, by %d writes", n, time.Since(began), len(writes(op)))
	rest(k, op)
	nothing(t, k, op, silence)
	op.Stop()
	again := start(k)
	rest(k, again)
	if w := writes(again); len(w) > 0 {
		t.Errorf("writes after a restart: %v", w)
	}
	nothing(t, k, again, silence/3)
}

// nothing fails the test if the operator sends any request within that time.
func nothing(t *testing.T, k *testkit.K, op *testkit.Instance, during time.Duration) {
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
