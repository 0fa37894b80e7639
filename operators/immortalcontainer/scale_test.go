package immortalcontainer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// 300 ImmortalContainers become Ready; then the operator is idle; then it is restarted and is idle again. The test has a
// control plane of its own and runs alone: 300 pods at once would break the watches of other tests.
func TestThreeHundredIdleWithoutRequests(t *testing.T) {
	k := testkit.New(t, testkit.Private())
	k.Timeout = 2 * time.Minute
	op := start(k)
	const n = 300
	began := time.Now()
	for i := range n {
		ic := newContainer(fmt.Sprintf("c%03d", i))
		ic.Namespace = k.Namespace
		if err := k.Client.Create(k.Context(), ic); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		k.Eventually(newContainer(fmt.Sprintf("c%03d", i)), testkit.Ready(), starts(1))
	}
	t.Logf("%d ImmortalContainers were Ready after %s, by %d writes", n, time.Since(began), len(writes(op.Requests())))
	k.Wait("the last write", func(ctx context.Context) error { return waitIdle(ctx, k, op) })

	expectNoRequests(t, k, op, quietPeriod())
	op.Stop()
	again := start(k)
	expectNoRequests(t, k, again, 5*time.Second)
}

// waitIdle waits until the operator has sent nothing for half a second, or for the time of a hundred requests if that is
// longer, as on a busy machine.
func waitIdle(ctx context.Context, k *testkit.K, op *testkit.Instance) error {
	quiet := time.Duration(0)
	for next := 500 * time.Millisecond; next > quiet; {
		quiet = next
		if err := op.Recorder().WaitIdle(ctx, quiet); err != nil {
			return err
		}
		began := time.Now()
		one := []client.ListOption{client.InNamespace(k.Namespace), client.Limit(1)}
		if err := k.Client.List(ctx, &v1alpha1.ImmortalContainerList{}, one...); err != nil {
			return err
		}
		next = min(100*time.Since(began), 10*time.Second)
	}
	return nil
}

// quietPeriod is how long the operator must be idle. A short run of the tests uses a tenth of it.
func quietPeriod() time.Duration {
	if testing.Short() {
		return 6 * time.Second
	}
	return time.Minute
}
