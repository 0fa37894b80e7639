package testkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
)

// pollInterval is how often Wait asks.
const pollInterval = 20 * time.Millisecond

// Apply creates obj or changes the existing object to match it, as `kubectl apply --server-side --force-conflicts`
// would: fields it does not mention are left alone. A namespaced object without a namespace goes to the test's. obj
// is overwritten with the server's answer and returned. Its status is ignored: see UpdateStatus. Cluster-wide objects
// are deleted after the test.
func (k *K) Apply(obj client.Object) client.Object {
	k.t.Helper()
	if err := k.apply(obj); err != nil {
		k.t.Fatalf("%v", err)
	}
	return obj
}

func (k *K) apply(obj client.Object) error {
	namespaced, err := k.locate(obj)
	if err != nil {
		return err
	}
	u, err := manifest.FromObject(obj, k.conn.scheme)
	if err != nil {
		return fmt.Errorf("applying: %w", err)
	}
	unstructured.RemoveNestedField(u.Object, "status")
	if err := manifest.Apply(k.Context(), k.Client, u); err != nil {
		return err
	}
	if !namespaced {
		k.cleanup = append(k.cleanup, u)
	}
	return manifest.ToObject(u, obj)
}

// locate puts obj into the test's namespace if it belongs into one and names none.
func (k *K) locate(obj client.Object) (namespaced bool, err error) {
	namespaced, err = k.Client.IsObjectNamespaced(obj)
	if err != nil {
		return false, fmt.Errorf("finding the scope of %T: %w", obj, err)
	}
	if namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(k.Namespace)
	}
	return namespaced, nil
}

// Get refreshes obj from the server.
func (k *K) Get(obj client.Object) {
	k.t.Helper()
	_, err := k.locate(obj)
	if err == nil {
		err = k.Client.Get(k.Context(), client.ObjectKeyFromObject(obj), obj)
	}
	if err != nil {
		k.t.Fatalf("getting %T %s: %v", obj, obj.GetName(), err)
	}
}

// Update refreshes obj, lets change alter it and sends it, again if somebody else was faster. Afterwards obj is what
// the server has stored.
func (k *K) Update(obj client.Object, change func()) {
	k.t.Helper()
	k.update(obj, change, func(ctx context.Context) error { return k.Client.Update(ctx, obj) })
}

// UpdateStatus does what Update does to the status, for example that of a pod in the API tier, where nothing runs it.
func (k *K) UpdateStatus(obj client.Object, change func()) {
	k.t.Helper()
	k.update(obj, change, func(ctx context.Context) error { return k.Client.Status().Update(ctx, obj) })
}

func (k *K) update(obj client.Object, change func(), send func(context.Context) error) {
	k.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		k.Get(obj)
		change()
		return send(k.Context())
	})
	if err != nil {
		k.t.Fatalf("updating %T %s: %v", obj, obj.GetName(), err)
	}
}

// Delete asks the server to delete obj and does not wait for it to be gone: see Gone. That there is no such object
// fails the test.
func (k *K) Delete(obj client.Object, opts ...client.DeleteOption) {
	k.t.Helper()
	_, err := k.locate(obj)
	if err == nil {
		err = k.Client.Delete(k.Context(), obj, opts...)
	}
	if err != nil {
		k.t.Fatalf("deleting %T %s: %v", obj, obj.GetName(), err)
	}
}

// Refused creates obj, which the server must refuse as invalid or forbidden, and returns the server's sentence.
func (k *K) Refused(obj client.Object) string {
	k.t.Helper()
	_, err := k.locate(obj)
	if err == nil {
		err = k.Client.Create(k.Context(), obj)
	}
	if err == nil {
		k.t.Fatalf("creating %T %s: accepted, but it should have been refused", obj, obj.GetName())
	}
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) {
		k.t.Fatalf("creating %T %s: refused for another reason than its content: %v", obj, obj.GetName(), err)
	}
	return err.Error()
}

// Wait calls done, every 20 ms, until it returns nil. It is for what concerns more than one object; for one there is
// Eventually. When K.Timeout is over the test fails with done's last error.
func (k *K) Wait(what string, done func(context.Context) error) {
	k.t.Helper()
	k.seen.say("waits until %s", what)
	ctx, cancel := context.WithTimeout(k.Context(), k.Timeout)
	defer cancel()
	var last error
	for {
		err := done(ctx)
		if err == nil {
			k.seen.say("no longer waits until %s", what)
			return
		}
		if last == nil || !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		select {
		case <-ctx.Done():
			k.t.Fatalf("waiting until %s: not within %v: %v", what, k.Timeout, last)
		case <-time.After(pollInterval):
		}
	}
}
