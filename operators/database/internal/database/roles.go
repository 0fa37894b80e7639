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

	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/program"
)

// NewRoles returns the controller that labels each pod of a database as primary or replica with [desired.RoleLabel]. The
// Service for reading selects replicas with it, because a selector cannot exclude a pod. The label cannot be in the pod
// template, because the StatefulSet creates all pods from one.
func NewRoles() *program.CustomController {
	return &program.CustomController{
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
			return reconcile.Result{}, assignRole(ctx, pods, mgr.GetClient(), req.NamespacedName)
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

// podCache returns a metadata cache of the members' pods, without annotations and managed fields.
func podCache(mgr manager.Manager, namespaces []string) (cache.Cache, error) {
	options := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{
			sdk.ManagedByLabel: desired.Manager, desired.ComponentLabel: desired.ServerComponent,
		}),
		DefaultTransform: func(o any) (any, error) {
			if pod, ok := o.(*metav1.PartialObjectMetadata); ok {
				pod.ManagedFields = nil
				pod.Annotations = nil
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

// assignRole updates the label of a member's pod if it differs.
func assignRole(ctx context.Context, pods client.Reader, writer client.Writer, key types.NamespacedName) error {
	pod := podMetadata()
	if err := pods.Get(ctx, key, pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	role := desired.Role(pod.Labels)
	if role == "" || pod.Labels[desired.RoleLabel] == role || pod.DeletionTimestamp != nil {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "labels": map[string]string{desired.RoleLabel: role}, // the UID prevents a patch of the pod's successor
	}})
	if err != nil {
		return fmt.Errorf("encoding the label of pod %s: %w", key, err)
	}
	err = writer.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it was replaced: an event follows
		return nil
	}
	if err != nil {
		return fmt.Errorf("labelling pod %s as %s: %w", key, role, err)
	}
	return nil
}
