package testkit

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/gc"
)

// finalizerTimeout is the time that the operators of a test have, all together, to remove their finalizers from the
// cluster-wide objects of the test.
const finalizerTimeout = 5 * time.Second

// deleteClusterScoped deletes the cluster-wide objects that the test applied, the newest first, and waits until the running
// operators have removed their finalizers. It needs running operators: an object may be readable only with a conversion
// webhook.
func (k *K) deleteClusterScoped(ctx context.Context) {
	waitCtx, cancel := context.WithTimeout(ctx, finalizerTimeout)
	defer cancel()
	for _, object := range slices.Backward(k.cleanup) {
		k.deleteObject(ctx, object)
		for k.isHeld(waitCtx, object) && k.operatorRuns() {
			select {
			case <-waitCtx.Done():
			case <-time.After(pollInterval):
			}
		}
	}
}

// releaseClusterScoped removes the finalizers that are left when the operators have been stopped. No operator would remove
// them, and the objects would stay in a control plane that other tests share.
func (k *K) releaseClusterScoped(ctx context.Context) {
	for _, object := range k.cleanup {
		if object.GetObjectKind().GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
			k.abandon(ctx, object)
		}
		if !k.isHeld(ctx, object) {
			continue
		}
		release := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := k.admin.Patch(ctx, object, release); err != nil && !apierrors.IsNotFound(err) {
			k.t.Errorf("cleaning up: removing the finalizers of %T %s: %v", object, object.GetName(), err)
		}
	}
}

// abandon lets the garbage collector remove the finalizers in a namespace.
func (k *K) abandon(ctx context.Context, namespace client.Object) {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, gc.AbandonAnnotation)
	err := k.admin.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, []byte(patch)))
	if err != nil && !apierrors.IsNotFound(err) {
		k.t.Errorf("cleaning up: abandoning namespace %s: %v", namespace.GetName(), err)
	}
}

// isHeld reports whether finalizers keep a deleted object.
func (k *K) isHeld(ctx context.Context, object client.Object) bool {
	err := k.admin.Get(ctx, client.ObjectKeyFromObject(object), object)
	return err == nil && object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) > 0
}

func (k *K) operatorRuns() bool {
	return slices.ContainsFunc(k.running, func(op *Instance) bool { return !op.ended() })
}

func (k *K) deleteObject(ctx context.Context, object client.Object) {
	if err := k.admin.Delete(ctx, object); err != nil && !apierrors.IsNotFound(err) {
		k.t.Errorf("cleaning up: deleting %T %s: %v", object, object.GetName(), err)
	}
}
