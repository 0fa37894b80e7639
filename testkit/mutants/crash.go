package mutants

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
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

// Bugs of an operator that is killed between two writes and cannot recover.
const (
	idLater        bug = "id-later"
	finalizerLater bug = "finalizer-later"
	observedFirst  bug = "observed-first"
)

func crashMutants() class {
	return class{
		name: "crash", setup: setupSnapshots, account: constantAccount("snapshot"),
		flaws: []flaw{
			{idLater, "The server generates the copy's name, and the operator stores it later. A crash in between loses it."},
			{finalizerLater, "The finalizer is added after the copy. If the Snapshot is deleted in between, the copy remains."},
			{observedFirst, "The observed generation is stored before the work. After a crash in between, the work is never done."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) { k.Apply(newSnapshot("daily", "data")) }},
			{"change", func(k *testkit.K) { k.Apply(newSnapshot("daily", "logs")) }},
			{"create another", func(k *testkit.K) { k.Apply(newSnapshot("weekly", "data")) }},
			{"delete", func(k *testkit.K) { k.Delete(newSnapshot("daily", "")) }},
		},
	}
}

func newSnapshot(name, volume string) *v1.Snapshot {
	return &v1.Snapshot{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.SnapshotSpec{Volume: volume}}
}

// snapshotLabel names the Snapshot of a copy.
const snapshotLabel = "snapshot"

func setupSnapshots(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		// The store and the records about it are read past the cache.
		direct, err := client.New(mgr.GetConfig(), client.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		})
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		r := &snapshots{newOperator(mgr, b)}
		r.Client = direct
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Snapshot{}).
			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(byLabel(snapshotLabel))).
			Complete(newReconciler(r.reconcile))
	}
}

// byLabel maps an object to the custom resource that a label names.
func byLabel(key string) handler.MapFunc {
	return func(_ context.Context, obj client.Object) []reconcile.Request {
		name, ok := obj.GetLabels()[key]
		if !ok {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
	}
}

type snapshots struct{ operator }

func (r *snapshots) reconcile(ctx context.Context, req reconcile.Request) error {
	s := &v1.Snapshot{}
	if err := r.Get(ctx, req.NamespacedName, s); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !s.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, s)
	}
	if r.bug != finalizerLater || s.Status.Copy != "" {
		if err := r.addFinalizer(ctx, s); err != nil {
			return err
		}
	}
	if r.bug == observedFirst {
		if s.Status.ObservedGeneration == s.Generation {
			return nil // this generation is in progress
		}
		s.Status.ObservedGeneration = s.Generation
		if err := r.Status().Update(ctx, s); err != nil {
			return err
		}
	}
	before := s.DeepCopy()
	name, err := r.applyCopy(ctx, s)
	if err != nil {
		return err
	}
	s.Status.Copy = name
	return r.updateStatus(ctx, before, s, readyCondition())
}

// applyCopy creates or updates the copy, and returns its name.
func (r *snapshots) applyCopy(ctx context.Context, s *v1.Snapshot) (string, error) {
	c := &corev1.ConfigMap{ObjectMeta: childMeta(s, s.Name+"-copy")}
	set := func() error {
		if c.ResourceVersion != "" && c.Labels[snapshotLabel] != s.Name {
			return errForeign
		}
		setLabel(c, snapshotLabel, s.Name)
		c.Data = map[string]string{"volume": s.Spec.Volume}
		return nil
	}
	if r.bug == idLater {
		c.Name = s.Status.Copy
		if c.Name == "" {
			c.GenerateName = s.Name + "-copy-"
			_ = set()
			err := r.Create(ctx, c)
			return c.Name, err
		}
	}
	err := r.applyUnowned(ctx, s, c, set)
	return c.Name, err
}

// finalize empties the store.
func (r *snapshots) finalize(ctx context.Context, s *v1.Snapshot) error {
	if !controllerutil.ContainsFinalizer(s, finalizer) {
		return nil
	}
	name := s.Name + "-copy"
	if r.bug == idLater {
		name = s.Status.Copy
	}
	if name != "" {
		c := &corev1.ConfigMap{ObjectMeta: childMeta(s, name)}
		err := r.Get(ctx, client.ObjectKeyFromObject(c), c)
		if err == nil && c.Labels[snapshotLabel] == s.Name {
			err = r.delete(ctx, c)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the copy: %w", err)
		}
	}
	return r.removeFinalizer(ctx, s)
}
