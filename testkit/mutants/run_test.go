package mutants_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// quietPeriod is the quiet period: an operator without a request for this time is idle.
const quietPeriod = 300 * time.Millisecond

// A run is one operator in a namespace of its own.
type run struct {
	*testkit.K

	t       *testing.T
	m       mutants.Mutant
	cfg     *rest.Config
	net     *network
	op      *testkit.Instance
	timeout time.Duration // bounds the wait for the expected state
}

// begin starts an operator as its own ServiceAccount. A twin gets a long timeout, and a mutant one that is sufficient
// to detect its bug.
func begin(t *testing.T, m mutants.Mutant) *run {
	var opts []testkit.Option
	if m.Class == "rbac" && !m.IsCorrect() {
		opts = append(opts, testkit.WithoutOracles("it lacks a permission on purpose: the witness reports it", testkit.Forbidden))
	}
	if m.Name == "clock/transition" {
		opts = append(opts,
			testkit.WithoutOracles("its conditions are wrong on purpose: the witness reports it", testkit.InvalidStatus))
	}
	k := testkit.New(t, opts...)
	r := &run{K: k, t: t, m: m, timeout: 3 * time.Second}
	if m.ClusterWide {
		r.cfg = k.Config // the roles of a ServiceAccount are limited to the namespace of the test
	} else {
		r.cfg = k.ServiceAccount(m.ServiceAccount)
	}
	if m.IsCorrect() {
		r.timeout = testkit.DefaultTimeout
	}
	r.start()
	return r
}

func (r *run) start() {
	r.t.Helper()
	r.startWith(&network{})
}

// startWith starts the operator with a network.
func (r *run) startWith(n *network) {
	r.t.Helper()
	r.net = n
	r.op = r.Start(r.m.Setup, testkit.WithConfig(r.net.wrap(r.cfg)), testkit.WithManagerOptions(func(o *manager.Options) {
		if r.m.ClusterWide { // other tests use the same control plane
			o.Cache.DefaultNamespaces = map[string]ctrlcache.Config{r.Namespace: {}, r.Namespace + "-a": {}, r.Namespace + "-b": {}}
		}
	}))
}

// restart stops the operator gracefully, runs meanwhile and starts it again.
func (r *run) restart(meanwhile func()) {
	r.t.Helper()
	r.op.Stop()
	meanwhile()
	r.start()
}

// crash runs do, kills the operator right before or right after the next matching request, and starts it again.
func (r *run) crash(after bool, request func(*http.Request) bool, do func()) {
	r.t.Helper()
	died := r.net.failAt(after, request)
	do()
	select {
	case <-died:
	case <-time.After(r.Timeout):
		r.t.Fatal("the operator does not send the request at which it should crash")
	}
	r.op.Kill()
	r.start()
}

// ready waits until an object is ready.
func (r *run) ready(obj client.Object) {
	r.t.Helper()
	r.Eventually(obj, testkit.Ready())
}

// eventually returns nil as soon as holds does, or its last error after the timeout.
func (r *run) eventually(holds func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), r.timeout)
	defer cancel()
	for {
		err := holds(r.Context())
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// waitIdle returns nil when the operator is idle. An operator that has opened no watch is still starting.
func (r *run) waitIdle() error {
	r.t.Helper()
	r.Wait("the operator watches", func(context.Context) error {
		if r.net.hasWatched() {
			return nil
		}
		return errors.New("it does not")
	})
	ctx, cancel := context.WithTimeout(r.Context(), r.timeout)
	defer cancel()
	return r.op.Recorder().WaitIdle(ctx, quietPeriod)
}

// count returns the number of requests of a kind with this status code, or with any if it is 0.
func (r *run) count(verb, resource string, code int) int {
	return len(slices.DeleteFunc(r.op.Requests(), func(req recorder.Request) bool {
		return req.Verb != verb || req.Resource != resource || code != 0 && req.Code != code
	}))
}

// until waits until the operator has sent n requests of a kind.
func (r *run) until(verb, resource string, n int) {
	r.t.Helper()
	r.Wait(fmt.Sprintf("there are %d requests to %s %s", n, verb, resource), func(context.Context) error {
		if got := r.count(verb, resource, 0); got < n {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
}

// configMaps returns the contents of the ConfigMaps by name.
func (r *run) configMaps(ctx context.Context) (map[string]map[string]string, error) {
	list := &corev1.ConfigMapList{}
	if err := r.Client.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for _, cm := range list.Items {
		all[cm.Name] = cm.Data
	}
	return all, nil
}

// has returns a check of the names of the existing ConfigMaps.
func (r *run) has(names ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := r.configMaps(ctx)
		if got := slices.Sorted(maps.Keys(all)); err == nil && !slices.Equal(got, names) {
			err = fmt.Errorf("there are ConfigMaps %q, want %q", got, names)
		}
		return err
	}
}

// meets returns a check of one object.
func (r *run) meets(obj client.Object, check testkit.Check) func(context.Context) error {
	obj.SetNamespace(r.Namespace)
	gvk, err := r.Client.GroupVersionKindFor(obj)
	if err != nil {
		r.t.Fatal(err)
	}
	return func(ctx context.Context) error {
		seen := obj
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj); client.IgnoreNotFound(err) != nil {
			return err
		} else if err != nil {
			seen = nil
		}
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		if missing := check.Missing(seen); missing != "" {
			return errors.New(missing)
		}
		return nil
	}
}
