package mutants

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator that adds a field to objects of users.
const (
	wholeObject bug = "whole-object"
	keepsEdit   bug = "keeps-edit"
	labelOnly   bug = "label-only"
)

func injectorMutants() class {
	return class{
		name: "injector", setup: setupSidecars, account: constantAccount("sidecar"),
		flaws: []flaw{
			{wholeObject, "The whole object is written from the cache without a resource version. Newer changes of users are lost."},
			{keepsEdit, "The annotation stays on a ConfigMap that no longer has the label."},
			{labelOnly, "Only changes of the label are handled. An annotation that another client removes is not restored."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) {
				k.Apply(newTarget("shop", "proxy"))
				k.Apply(newTarget("blog", "proxy"))
				k.Apply(newTarget("wiki", ""))
				k.Apply(newSidecar("proxy", "proxy:1"))
			}},
			{"change the image", func(k *testkit.K) { k.Apply(newSidecar("proxy", "proxy:2")) }},
			{"opt in", func(k *testkit.K) { k.Apply(newTarget("wiki", "proxy")) }},
			{"opt out", func(k *testkit.K) { k.Apply(newTarget("blog", "")) }},
		},
	}
}

func newSidecar(name, image string) *v1.Sidecar {
	return &v1.Sidecar{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.SidecarSpec{Image: image}}
}

// newTarget returns a ConfigMap of a user who asks for a Sidecar, or for none.
func newTarget(name, sidecar string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"name": name}}
	if sidecar != "" {
		cm.Labels = map[string]string{sidecarLabel: sidecar}
	}
	return cm
}

// The label names the Sidecar that a user asks for. The annotation is the prefix and the name of the Sidecar.
const (
	sidecarLabel  = "sidecar"
	sidecarPrefix = "sidecar.mutants.homeostat.dev/"
)

func setupSidecars(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &sidecars{newOperator(mgr, b)}
		filter := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return b != labelOnly || e.ObjectOld.GetLabels()[sidecarLabel] != e.ObjectNew.GetLabels()[sidecarLabel]
		}}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Sidecar{}).
			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(sidecarsOf), builder.WithPredicates(filter)).
			Complete(newReconciler(r.reconcile))
	}
}

// sidecarsOf returns the Sidecars that an object has or should have.
func sidecarsOf(_ context.Context, obj client.Object) []reconcile.Request {
	names := map[string]bool{}
	if name := obj.GetLabels()[sidecarLabel]; name != "" {
		names[name] = true
	}
	for key := range obj.GetAnnotations() {
		if name, ok := strings.CutPrefix(key, sidecarPrefix); ok {
			names[name] = true
		}
	}
	var requests []reconcile.Request
	for name := range names {
		key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

type sidecars struct{ operator }

func (r *sidecars) reconcile(ctx context.Context, req reconcile.Request) error {
	s := &v1.Sidecar{}
	if err := r.Get(ctx, req.NamespacedName, s); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !s.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, s)
	}
	if err := r.addFinalizer(ctx, s); err != nil {
		return err
	}
	before := s.DeepCopy()
	err := r.inject(ctx, r, s, func(cm *corev1.ConfigMap) string {
		switch {
		case cm.Labels[sidecarLabel] == s.Name:
			return s.Spec.Image
		case r.bug == keepsEdit:
			return cm.Annotations[sidecarPrefix+s.Name]
		default:
			return ""
		}
	})
	if err != nil {
		return err
	}
	return r.updateStatus(ctx, before, s, readyCondition())
}

// finalize removes the annotation from all objects.
func (r *sidecars) finalize(ctx context.Context, s *v1.Sidecar) error {
	if !controllerutil.ContainsFinalizer(s, finalizer) {
		return nil
	}
	// The cache may lack an annotation that was written before.
	if err := r.inject(ctx, r.apiReader, s, func(*corev1.ConfigMap) string { return "" }); err != nil {
		return err
	}
	return r.removeFinalizer(ctx, s)
}

// inject gives each ConfigMap the annotation with the value that image returns, or none if it is empty.
func (r *sidecars) inject(
	ctx context.Context, reader client.Reader, s *v1.Sidecar, image func(*corev1.ConfigMap) string,
) error {
	list := &corev1.ConfigMapList{}
	if err := reader.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
		return fmt.Errorf("listing the ConfigMaps: %w", err)
	}
	for i := range list.Items {
		cm := &list.Items[i]
		key, want := sidecarPrefix+s.Name, image(cm)
		if cm.Annotations[key] == want {
			continue
		}
		cm.Annotations = maps.Clone(cm.Annotations) // that of the cache is shared
		metav1.SetMetaDataAnnotation(&cm.ObjectMeta, key, want)
		if want == "" {
			delete(cm.Annotations, key)
		}
		if r.bug == wholeObject {
			cm.ResourceVersion = ""
		}
		if err := r.Update(ctx, cm); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("annotating ConfigMap %s: %w", cm.Name, err)
		}
	}
	return nil
}
