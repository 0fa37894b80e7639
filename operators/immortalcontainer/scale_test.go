package immortalcontainer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit"
)

// 300 ImmortalContainers become Ready; then the operator is silent; then it is restarted and is silent again.
func TestThreeHundredCostNothingOnceTheyRun(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
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
	k.Wait("the last write", func(ctx context.Context) error { return settled(ctx, op) })

	nothing(t, k, op, silence())
	op.Stop()
	again := start(k)
	nothing(t, k, again, 5*time.Second)
}

// settled returns nil if the operator sent nothing for half a second.
func settled(ctx context.Context, op *testkit.Operator) error {
	before := len(op.Requests())
	select {
	case <-ctx.Done():
	case <-time.After(500 * time.Millisecond):
	}
	if now := len(op.Requests()); now != before {
		return fmt.Errorf("%d requests in half a second", now-before)
	}
	return nil
}

// silence is how long the operator must be silent. A short run of the tests looks for a tenth of the time.
func silence() time.Duration {
	if testing.Short() {
		return 6 * time.Second
	}
	return time.Minute
}
