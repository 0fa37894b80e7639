package mutants

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator that reconciles a second time before its cache has the writes of the first.
const (
	collision   bug = "collision"
	nextNumber  bug = "next-number"
	prunesTwice bug = "prunes-twice"
)

func stalePassMutants() class {
	return class{
		name: "stale-pass", setup: setupBatches, account: constantAccount("batch"),
		flaws: []flaw{
			{collision, "A run that exists, but is not in the cache, counts as a collision. It is created again with a suffix."},
			{nextNumber, "A taken number is skipped. Runs that the cache lacks are created again under the next numbers."},
			{prunesTwice, "The excess is counted in the cache, but the runs are read directly. A second pass deletes too many."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) { k.Apply(newBatch("nightly", 2)) }},
			{"scale up", func(k *testkit.K) { k.Apply(newBatch("nightly", 5)) }},
			{"create another", func(k *testkit.K) { k.Apply(newBatch("weekly", 1)) }},
			{"scale down", func(k *testkit.K) { k.Apply(newBatch("nightly", 3)) }},
		},
	}
}

func newBatch(name string, runs int32) *v1.Batch {
	return &v1.Batch{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.BatchSpec{Runs: runs}}
}

// The labels of a run: the name of the Batch and a number from 0.
const (
	batchLabel = "batch"
	runLabel   = "run"
)

func setupBatches(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &batches{newOperator(mgr, b)}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Batch{}).Owns(&corev1.ConfigMap{}).
			Complete(newReconciler(r.reconcile))
	}
}

type batches struct{ operator }

func (r *batches) reconcile(ctx context.Context, req reconcile.Request) error {
	b := &v1.Batch{}
	if err := r.Get(ctx, req.NamespacedName, b); err != nil || !b.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	before := b.DeepCopy()
	cached, err := r.list(ctx, r, b)
	if err != nil {
		return err
	}
	if err := r.start(ctx, b, cached); err != nil {
		return err
	}
	if err := r.prune(ctx, b, cached); err != nil {
		return err
	}
	if err := r.count(ctx, b); err != nil {
		return err
	}
	return r.updateStatus(ctx, before, b, readyCondition())
}

// list returns the runs of a Batch in the order of their numbers.
func (r *batches) list(ctx context.Context, reader client.Reader, b *v1.Batch) ([]corev1.ConfigMap, error) {
	list := &corev1.ConfigMapList{}
	err := reader.List(ctx, list, client.InNamespace(b.Namespace), client.MatchingLabels{batchLabel: b.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the runs: %w", err)
	}
	runs := slices.DeleteFunc(list.Items, func(cm corev1.ConfigMap) bool { return !metav1.IsControlledBy(&cm, b) })
	slices.SortFunc(runs, func(a, b corev1.ConfigMap) int { return cmp.Compare(number(&a), number(&b)) })
	return runs, nil
}

// number returns the number of a run, or -1 if its label is not one.
func number(run *corev1.ConfigMap) int {
	n, err := strconv.Atoi(run.Labels[runLabel])
	if err != nil {
		return -1
	}
	return n
}

// start creates or updates the runs of the spec.
func (r *batches) start(ctx context.Context, b *v1.Batch, cached []corev1.ConfigMap) error {
	for i := range int(b.Spec.Runs) {
		isCached := slices.ContainsFunc(cached, func(run corev1.ConfigMap) bool { return number(&run) == i })
		if r.bug == nextNumber && !isCached {
			continue // see startMissing
		}
		run, set := r.run(b, i)
		err := r.apply(ctx, b, run, set)
		if r.bug == collision && apierrors.IsAlreadyExists(err) {
			run.Name += "-1"
			err = r.apply(ctx, b, run, set)
		}
		if err != nil {
			return err
		}
	}
	if r.bug == nextNumber {
		return r.startMissing(ctx, b, len(cached))
	}
	return nil
}

// run returns a run and a function that sets its fields.
func (r *batches) run(b *v1.Batch, i int) (*corev1.ConfigMap, func()) {
	cm := &corev1.ConfigMap{ObjectMeta: childMeta(b, fmt.Sprintf("%s-run-%d", b.Name, i))}
	return cm, func() {
		setLabel(cm, batchLabel, b.Name)
		setLabel(cm, runLabel, strconv.Itoa(i))
		cm.Data = map[string]string{"batch": b.Name}
	}
}

// startMissing creates as many runs as are missing, under the next free numbers.
func (r *batches) startMissing(ctx context.Context, b *v1.Batch, existing int) error {
	for next := 0; existing < int(b.Spec.Runs); next++ {
		run, set := r.run(b, next)
		set()
		err := controllerutil.SetControllerReference(b, run, r.Scheme(), controllerutil.WithBlockOwnerDeletion(false))
		if err == nil {
			err = r.Create(ctx, run)
		}
		switch {
		case apierrors.IsAlreadyExists(err):
		case err != nil:
			return fmt.Errorf("creating run %d: %w", next, err)
		default:
			existing++
		}
	}
	return nil
}

// prune deletes the runs that the spec does not have.
func (r *batches) prune(ctx context.Context, b *v1.Batch, cached []corev1.ConfigMap) error {
	var excess []corev1.ConfigMap
	if r.bug == prunesTwice {
		runs, err := r.list(ctx, r.apiReader, b)
		if err != nil {
			return err
		}
		n := max(len(cached)-int(b.Spec.Runs), 0)
		excess = runs[max(len(runs)-n, 0):]
	} else {
		for _, run := range cached {
			if n := number(&run); n < 0 || n >= int(b.Spec.Runs) {
				excess = append(excess, run)
			}
		}
	}
	for i := range excess {
		if err := r.delete(ctx, &excess[i]); err != nil {
			return err
		}
	}
	return nil
}

// count updates the total.
func (r *batches) count(ctx context.Context, b *v1.Batch) error {
	cm := &corev1.ConfigMap{ObjectMeta: childMeta(b, b.Name+"-total")}
	return r.apply(ctx, b, cm, func() { cm.Data = map[string]string{"runs": strconv.Itoa(int(b.Spec.Runs))} })
}
