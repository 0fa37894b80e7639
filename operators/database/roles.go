package database

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	events "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/homeostat-dev/homeostat/operators/database/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk"
)

// NewRoles returns the controller that says of each pod of a database whether it is the primary or a replica, by the label
// [desired.RoleLabel]: the Service for reading selects replicas by it, and a Service cannot select by "not the first". The
// pods are the StatefulSet's, which makes all of them from one template.
func NewRoles() *sdk.Custom {
	return &sdk.Custom{
		Name:  "database-roles",
		Doc:   "The database-roles controller labels the pods of databases as primary or replica.",
		Setup: setUpRoles,
	}
}

func setUpRoles(mgr manager.Manager, namespaces []string, workers int) error {
	pods, err := podCache(mgr, namespaces)
	if err != nil {
		return err
	}
	if err := mgr.Add(pods); err != nil {
		return fmt.Errorf("adding the cache of pods: %w", err)
	}
	c, err := controller.New("database-roles", mgr, controller.Options{
		MaxConcurrentReconciles: workers,
		Reconciler: reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, assign(ctx, pods, mgr.GetClient(), req.NamespacedName)
		}),
	})
	if err != nil {
		return fmt.Errorf("adding the controller: %w", err)
	}
	if err := c.Watch(events.Kind[client.Object](pods, podMetadata(), &handler.EnqueueRequestForObject{})); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	return nil
}

// podCache keeps of the pods of members their metadata, and of that what is needed.
func podCache(mgr manager.Manager, namespaces []string) (cache.Cache, error) {
	options := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{
			sdk.ManagedByLabel: desired.Manager, desired.ComponentLabel: desired.ServerComponent,
		}),
		DefaultTransform: func(o any) (any, error) {
			if pod, ok := o.(*metav1.PartialObjectMetadata); ok {
				pod.ManagedFields, pod.Annotations = nil, nil
			}
			return o, nil
		},
	}
	for _, n := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[n] = cache.Config{}
	}
	pods, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("making the cache of pods: %w", err)
	}
	return pods, nil
}

func podMetadata() *metav1.PartialObjectMetadata {
	pod := &metav1.PartialObjectMetadata{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return pod
}

// assign labels one pod, if it is that of a member and has another label.
func assign(ctx context.Context, pods client.Reader, writer client.Writer, key types.NamespacedName) error {
	pod := podMetadata()
	if err := pods.Get(ctx, key, pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	role := desired.Role(pod.Labels)
	if role == "" || pod.Labels[desired.RoleLabel] == role || pod.DeletionTimestamp != nil {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "labels": map[string]string{desired.RoleLabel: role}, // that very pod, whatever else changed
	}})
	if err != nil {
		return fmt.Errorf("encoding the label of pod %s: %w", key, err)
	}
	err = writer.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it was replaced, of which there is news
		return nil
	}
	if err != nil {
		return fmt.Errorf("labelling pod %s as %s: %w", key, role, err)
	}
	return nil
}
