package e2e

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

// Live returns objects as the cache holds them. managedFields is most of a small object, and the cache keeps only the
// entries that are needed to detect that the object has converged.
func TestCacheKeepsOnlyOurManagedFields(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var primary, child atomic.Value
	op := operator(func(_ context.Context, p *pass) error {
		c := sdk.Apply(p, configMap(p.Object, p.Object.Name))
		var managers []string
		for _, entry := range c.Live().ManagedFields {
			managers = append(managers, string(entry.Operation)+" by "+entry.Manager)
		}
		child.Store(managers)
		primary.Store(len(p.Object.ManagedFields))
		return nil
	})
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	mustPatch(t, k, named(&corev1.ConfigMap{}, s.Name), types.MergePatchType, `{"data":{"foreign":"x"}}`)
	waitIdle(k, running, quietPeriod)
	running.Stop()
	child.Store([]string(nil)) // after a write, Live returns the server's response with all fields
	running = start(k, op)
	k.Wait("a pass was made", func(context.Context) error {
		if child.Load().([]string) == nil {
			return errors.New("not yet")
		}
		return nil
	})
	waitIdle(k, running, quietPeriod)
	if diff := cmp.Diff([]string{"Apply by " + operatorName}, child.Load()); diff != "" {
		t.Errorf("managers in the cached child (-want +got):\n%s", diff)
	}
	if n := primary.Load(); n != 0 {
		t.Errorf("the cached primary has %d entries of managedFields", n)
	}
}

// BenchmarkMemory measures the heap of an idle operator after a restart, for one object with one child:
// go test -run '^$' -bench Memory -benchtime 1x.
func BenchmarkMemory(b *testing.B) {
	const objects = 1000
	for b.Loop() {
		k := testkit.New(b)
		op := operator(func(_ context.Context, p *pass) error {
			always := sdk.ReadyWhen(func(client.Object) (bool, string) { return true, "" })
			sdk.Apply(p, deployment(p.Object), always)
			return nil
		})
		op.Owns = []client.Object{&appsv1.Deployment{}}
		running := start(k, op)
		for i := range objects {
			k.Apply(newSite(fmt.Sprintf("s%d", i)))
		}
		for i := range objects {
			k.Eventually(newSite(fmt.Sprintf("s%d", i)), testkit.Ready())
		}
		running.Stop()
		before := heap()
		running = start(k, op)
		waitIdle(k, running, 2*quietPeriod)
		b.ReportMetric(float64(heap()-before)/objects, "B/object")
		running.Stop()
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
