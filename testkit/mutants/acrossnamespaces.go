package mutants

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator that copies objects to other namespaces, where owner references have no effect.
const (
	copiesOnce   bug = "copies-once"
	leavesCopies bug = "leaves-copies"
	copiesUnseen bug = "copies-unseen"
)

func acrossNamespacesMutants() class {
	return class{
		name: "across-namespaces", setup: setupShares, account: constantAccount("share"), clusterWide: true,
		flaws: []flaw{
			{copiesOnce, "A copy is created, but never updated. Changes of the source do not reach it."},
			{leavesCopies, "The copies are left after the deletion of the Share. No owner reference deletes them."},
			{copiesUnseen, "Copies are not watched. Changes by other clients are repaired only after a change of the source."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) {
				k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-a"}})
				k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-b"}})
				k.Apply(newSource("one"))
				k.Apply(newShare(k.Namespace + "-a"))
			}},
			{"change the source", func(k *testkit.K) { k.Apply(newSource("two")) }},
			{"add a namespace", func(k *testkit.K) { k.Apply(newShare(k.Namespace+"-a", k.Namespace+"-b")) }},
			{"remove a namespace", func(k *testkit.K) { k.Apply(newShare(k.Namespace + "-b")) }},
		},
	}
}

func newSource(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "letter"}, Data: map[string]string{"text": text}}
}

func newShare(namespaces ...string) *v1.Share {
	return &v1.Share{
		ObjectMeta: metav1.ObjectMeta{Name: "letters"},
		Spec:       v1.ShareSpec{Source: "letter", Namespaces: namespaces},
	}
}

// The labels of a copy: the namespace and the name of its Share.
const (
	shareNamespaceLabel = "share-namespace"
	shareLabel          = "share"
)

func setupShares(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &shares{newOperator(mgr, b)}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Share{}).
			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.sharesOf)).
			Complete(newReconciler(r.reconcile))
	}
}

type shares struct{ operator }

// sharesOf returns the Share of a copy, or the Shares of a source.
func (r *shares) sharesOf(ctx context.Context, obj client.Object) []reconcile.Request {
	if name, isCopy := obj.GetLabels()[shareLabel]; isCopy {
		if r.bug == copiesUnseen {
			return nil
		}
		key := types.NamespacedName{Namespace: obj.GetLabels()[shareNamespaceLabel], Name: name}
		return []reconcile.Request{{NamespacedName: key}}
	}
	list := &v1.ShareList{}
	if r.List(ctx, list, client.InNamespace(obj.GetNamespace())) != nil {
		return nil // the cache is being stopped
	}
	var requests []reconcile.Request
	for _, s := range list.Items {
		if s.Spec.Source == obj.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&s)})
		}
	}
	return requests
}

func (r *shares) reconcile(ctx context.Context, req reconcile.Request) error {
	s := &v1.Share{}
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
	source := &corev1.ConfigMap{}
	err := r.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Spec.Source}, source)
	switch {
	case apierrors.IsNotFound(err):
		if err := r.deleteCopies(ctx, r, s, nil); err != nil {
			return err
		}
		return r.updateStatus(ctx, before, s, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: "NoSource",
			Message: fmt.Sprintf("there is no ConfigMap %s: create it", s.Spec.Source),
		})
	case err != nil:
		return fmt.Errorf("reading the source: %w", err)
	}
	for _, namespace := range s.Spec.Namespaces {
		if err := r.applyCopy(ctx, s, source, namespace); err != nil {
			return err
		}
	}
	if err := r.deleteCopies(ctx, r, s, s.Spec.Namespaces); err != nil {
		return err
	}
	return r.updateStatus(ctx, before, s, readyCondition())
}

func (r *shares) applyCopy(ctx context.Context, s *v1.Share, source *corev1.ConfigMap, namespace string) error {
	name := s.Namespace + "-" + strings.ReplaceAll(s.Name, ".", "-")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return r.applyUnowned(ctx, s, cm, func() error {
		exists := cm.ResourceVersion != ""
		switch {
		case exists && (cm.Labels[shareNamespaceLabel] != s.Namespace || cm.Labels[shareLabel] != s.Name):
			return errForeign
		case exists && r.bug == copiesOnce:
			return nil
		}
		setLabel(cm, shareNamespaceLabel, s.Namespace)
		setLabel(cm, shareLabel, s.Name)
		cm.Data = source.Data
		return nil
	})
}

// deleteCopies deletes the copies in all namespaces but the given ones.
func (r *shares) deleteCopies(ctx context.Context, reader client.Reader, s *v1.Share, except []string) error {
	list := &corev1.ConfigMapList{}
	err := reader.List(ctx, list, client.MatchingLabels{shareNamespaceLabel: s.Namespace, shareLabel: s.Name})
	if err != nil {
		return fmt.Errorf("listing the copies: %w", err)
	}
	for i := range list.Items {
		if !slices.Contains(except, list.Items[i].Namespace) {
			if err := r.delete(ctx, &list.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// finalize deletes all copies.
func (r *shares) finalize(ctx context.Context, s *v1.Share) error {
	if !controllerutil.ContainsFinalizer(s, finalizer) {
		return nil
	}
	if r.bug != leavesCopies {
		// The cache may lack a copy that was created before.
		if err := r.deleteCopies(ctx, r.apiReader, s, nil); err != nil {
			return err
		}
	}
	return r.removeFinalizer(ctx, s)
}
