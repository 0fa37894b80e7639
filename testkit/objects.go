package testkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
)

// pollInterval is the polling interval of Wait.
const pollInterval = 20 * time.Millisecond

// Apply creates obj or changes the existing object to match it, like `kubectl apply --server-side --force-conflicts`:
// fields that obj does not mention stay unchanged. A namespaced object without a namespace is created in the test's.
// Apply overwrites obj with the response of the server and returns it. It ignores the status: see UpdateStatus.
// Cluster-wide objects are deleted after the test.
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

// locate sets the test's namespace on a namespaced obj without a namespace.
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

// Update refreshes obj, calls change and sends the result. It retries on conflict, for up to k.Timeout, because the operator
// and the controllers of Kubernetes may write the object often. Afterwards obj is the stored object.
func (k *K) Update(obj client.Object, change func()) {
	k.t.Helper()
	k.update(obj, change, func(ctx context.Context) error { return k.Client.Update(ctx, obj) })
}

// UpdateStatus is Update for the status subresource, for example of a pod in the API tier, where no kubelet updates it.
func (k *K) UpdateStatus(obj client.Object, change func()) {
	k.t.Helper()
	k.update(obj, change, func(ctx context.Context) error { return k.Client.Status().Update(ctx, obj) })
}

func (k *K) update(obj client.Object, change func(), send func(context.Context) error) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), k.Timeout)
	defer cancel()
	for {
		k.Get(obj)
		change()
		err := send(ctx)
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) || ctx.Err() != nil {
			k.t.Fatalf("updating %T %s: %v", obj, obj.GetName(), err)
		}
		select {
		case <-time.After(conflictDelay):
		case <-ctx.Done():
		}
	}
}

// conflictDelay is the time between two attempts of an update.
const conflictDelay = 10 * time.Millisecond

// Delete deletes obj and does not wait until it is gone: see Gone. A missing object fails the test.
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

// Refused creates obj, expects the server to reject it as invalid or forbidden, and returns the server's message.
func (k *K) Refused(obj client.Object) string {
	k.t.Helper()
	_, err := k.locate(obj)
	if err == nil {
		err = k.Client.Create(k.Context(), obj)
	}
	return k.refusal("creating", obj, err)
}

// RefusedUpdate is Update for a change that the server must reject as invalid or forbidden. It returns the server's message.
// Afterwards obj is the stored object.
func (k *K) RefusedUpdate(obj client.Object, change func()) string {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), k.Timeout)
	defer cancel()
	for {
		k.Get(obj)
		change()
		err := k.Client.Update(ctx, obj)
		if apierrors.IsConflict(err) && ctx.Err() == nil {
			continue
		}
		message := k.refusal("updating", obj, err)
		k.Get(obj)
		return message
	}
}

// refusal returns the message of a rejection for the content of obj, and fails the test otherwise.
func (k *K) refusal(doing string, obj client.Object, err error) string {
	k.t.Helper()
	if err == nil {
		k.t.Fatalf("%s %T %s: accepted, but it should have been refused", doing, obj, obj.GetName())
	}
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) {
		k.t.Fatalf("%s %T %s: refused for another reason than its content: %v", doing, obj, obj.GetName(), err)
	}
	return err.Error()
}

// Wait calls done every 20 ms until it returns nil. It is for conditions on more than one object; for one object use
// Eventually. After K.Timeout the test fails with done's last error.
func (k *K) Wait(what string, done func(context.Context) error) {
	k.t.Helper()
	k.obs.record("waits until %s", what)
	ctx, cancel := context.WithTimeout(k.Context(), k.Timeout)
	defer cancel()
	var last error
	for {
		err := done(ctx)
		if err == nil {
			k.obs.record("no longer waits until %s", what)
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
