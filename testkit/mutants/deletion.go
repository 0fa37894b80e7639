package mutants

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

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

// Bugs of an operator that blocks the deletion of its object, or leaves residue.
const (
	needsCredentials bug = "needs-credentials" //nolint:gosec // It is the name of a bug.
	bySpec           bug = "by-spec"
	notFound         bug = "not-found"
)

func deletionMutants() class {
	return class{
		name: "deletion", setup: setupArchives, account: constantAccount("archive"),
		flaws: []flaw{
			{needsCredentials, "The cleanup first reads the credentials. If they are already deleted, the Archive is never removed."},
			{bySpec, "The cleanup deletes the number of copies in the spec. It ignores the copies that exist."},
			{notFound, "The cleanup fails if the index is already deleted, for example by an interrupted cleanup."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) {
				k.Apply(newCredentials())
				k.Apply(newArchive("letters", 3))
				k.Apply(newArchive("photos", 1))
			}},
			{"scale down", func(k *testkit.K) { k.Apply(newArchive("letters", 1)) }},
			{"delete", func(k *testkit.K) { k.Delete(newArchive("letters", 0)) }},
		},
	}
}

func newArchive(name string, copies int32) *v1.Archive {
	return &v1.Archive{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.ArchiveSpec{Copies: copies, Credentials: "signing"},
	}
}

func newCredentials() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "signing"}, Data: map[string][]byte{"key": []byte("secret")}}
}

// archiveLabel names the Archive of a copy, and of the index.
const archiveLabel = "archive"

func setupArchives(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &archives{newOperator(mgr, b)}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Archive{}).
			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(byLabel(archiveLabel))).
			Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.archivesOf)).
			Complete(newReconciler(r.reconcile))
	}
}

type archives struct{ operator }

// archivesOf finds the archives that use a Secret.
func (r *archives) archivesOf(ctx context.Context, secret client.Object) []reconcile.Request {
	list := &v1.ArchiveList{}
	if r.List(ctx, list, client.InNamespace(secret.GetNamespace())) != nil {
		return nil // the cache is being stopped
	}
	var requests []reconcile.Request
	for _, a := range list.Items {
		if a.Spec.Credentials == secret.GetName() {
			key := types.NamespacedName{Namespace: a.Namespace, Name: a.Name}
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
	}
	return requests
}

func (r *archives) reconcile(ctx context.Context, req reconcile.Request) error {
	a := &v1.Archive{}
	if err := r.Get(ctx, req.NamespacedName, a); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !a.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, a)
	}
	if err := r.addFinalizer(ctx, a); err != nil {
		return err
	}
	before := a.DeepCopy()
	key, err := r.key(ctx, a)
	switch {
	case apierrors.IsNotFound(err):
		return r.updateStatus(ctx, before, a, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: "NoCredentials",
			Message: fmt.Sprintf("there is no Secret %s: create it, with a key called key", a.Spec.Credentials),
		})
	case err != nil:
		return err
	}
	if err := r.applyCopies(ctx, a, key); err != nil {
		return err
	}
	return r.updateStatus(ctx, before, a, readyCondition())
}

// key reads the key that signs the copies.
func (r *archives) key(ctx context.Context, a *v1.Archive) ([]byte, error) {
	secret := &corev1.Secret{ObjectMeta: childMeta(a, a.Spec.Credentials)}
	if err := r.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		return nil, fmt.Errorf("reading the credentials: %w", err)
	}
	return secret.Data["key"], nil
}

// applyCopies creates the index and the copies, and deletes excess copies.
func (r *archives) applyCopies(ctx context.Context, a *v1.Archive, key []byte) error {
	if err := r.store(ctx, a, indexName(a), map[string]string{"copies": strconv.Itoa(int(a.Spec.Copies))}); err != nil {
		return err
	}
	wanted := map[string]bool{indexName(a): true}
	for i := range a.Spec.Copies {
		name := copyName(a, i)
		wanted[name] = true
		signature := sha256.Sum256(append(key, name...))
		if err := r.store(ctx, a, name, map[string]string{"signature": hex.EncodeToString(signature[:])}); err != nil {
			return err
		}
	}
	list := &corev1.ConfigMapList{}
	err := r.List(ctx, list, client.InNamespace(a.Namespace), client.MatchingLabels{archiveLabel: a.Name})
	if err != nil {
		return fmt.Errorf("listing the copies: %w", err)
	}
	for i := range list.Items {
		if !wanted[list.Items[i].Name] {
			if err := r.delete(ctx, &list.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *archives) store(ctx context.Context, a *v1.Archive, name string, data map[string]string) error {
	cm := &corev1.ConfigMap{ObjectMeta: childMeta(a, name)}
	return r.applyUnowned(ctx, a, cm, func() error {
		if cm.ResourceVersion != "" && cm.Labels[archiveLabel] != a.Name {
			return errForeign
		}
		setLabel(cm, archiveLabel, a.Name)
		cm.Data = data
		return nil
	})
}

func indexName(a *v1.Archive) string { return a.Name + "-index" }

func copyName(a *v1.Archive, i int32) string { return fmt.Sprintf("%s-copy-%d", a.Name, i) }

// finalize empties the store.
func (r *archives) finalize(ctx context.Context, a *v1.Archive) error {
	// The cache may be stale, and show an Archive that was replaced by another one of the same name.
	err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(a), a)
	if err != nil || a.DeletionTimestamp.IsZero() || !controllerutil.ContainsFinalizer(a, finalizer) {
		return client.IgnoreNotFound(err)
	}
	if r.bug == needsCredentials {
		if _, err := r.key(ctx, a); err != nil {
			return err
		}
	}
	if r.bug == notFound || r.bug == bySpec { // the others find the index by its label
		err = r.Delete(ctx, &corev1.ConfigMap{ObjectMeta: childMeta(a, indexName(a))})
		if r.bug != notFound {
			err = client.IgnoreNotFound(err)
		}
		if err != nil {
			return fmt.Errorf("deleting the index: %w", err)
		}
	}
	left, err := r.remainingCopies(ctx, a)
	if err != nil {
		return err
	}
	for i := range left {
		if err := client.IgnoreNotFound(r.Delete(ctx, &left[i])); err != nil {
			return fmt.Errorf("deleting a copy: %w", err)
		}
	}
	return r.removeFinalizer(ctx, a)
}

// remainingCopies returns the existing copies.
func (r *archives) remainingCopies(ctx context.Context, a *v1.Archive) ([]corev1.ConfigMap, error) {
	list := &corev1.ConfigMapList{}
	if r.bug == bySpec {
		for i := range a.Spec.Copies {
			list.Items = append(list.Items, corev1.ConfigMap{ObjectMeta: childMeta(a, copyName(a, i))})
		}
		return list.Items, nil
	}
	err := r.apiReader.List(ctx, list, client.InNamespace(a.Namespace), client.MatchingLabels{archiveLabel: a.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the copies: %w", err)
	}
	return list.Items, nil
}
