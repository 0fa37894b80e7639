package mutants

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator that recovers from one fault, but not from a second one during the recovery.
const (
	noMark    bug = "no-mark"
	tokenCopy bug = "token-copy"
	staleLock bug = "stale-lock"
)

func twoFaultsMutants() class {
	const reason = "a short exploration tries one pair of faults"
	return class{
		name: "two-faults", setup: setupTransfers, account: func(b bug) string {
			if b == "" {
				return "transfer"
			}
			return "transfer-recovering"
		},
		flaws: []flaw{
			{noMark, "If the second write fails, the first is marked as incomplete. If that fails as well, the second is lost."},
			{tokenCopy, "If the token cannot be read, a copy in memory is used. A new process has none, and replaces the token."},
			{staleLock, "A new process removes the lock of a killed one. If that fails once, the object stays locked."},
		},
		undetected: map[bug]string{
			noMark:    reason,
			tokenCopy: reason,
			staleLock: reason,
		},
		steps: []Step{
			{"create", func(k *testkit.K) { k.Apply(newTransfer("orders", "a")) }},
			{"change", func(k *testkit.K) { k.Apply(newTransfer("orders", "b")) }},
			{"create another", func(k *testkit.K) { k.Apply(newTransfer("bills", "a")) }},
		},
	}
}

func newTransfer(name, data string) *v1.Transfer {
	return &v1.Transfer{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.TransferSpec{Data: data}}
}

// lockAnnotation names the process that works on a Transfer, in mutant stale-lock.
const lockAnnotation = "mutants.homeostat.dev/locked-by"

func setupTransfers(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &transfers{
			operator: newOperator(mgr, b), process: rand.Text(), failed: map[types.NamespacedName]bool{},
			tokens: map[types.NamespacedName]string{}, unlocked: map[types.NamespacedName]bool{},
		}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Transfer{}).Owns(&corev1.ConfigMap{}).
			Complete(newReconciler(r.reconcile))
	}
}

type transfers struct {
	operator

	process  string                          // differs in each process
	failed   map[types.NamespacedName]bool   // Transfers whose second write has failed
	tokens   map[types.NamespacedName]string // copies of the tokens
	unlocked map[types.NamespacedName]bool   // Transfers whose stale lock was removed
}

func (r *transfers) reconcile(ctx context.Context, req reconcile.Request) error {
	t := &v1.Transfer{}
	if err := r.Get(ctx, req.NamespacedName, t); err != nil || !t.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	if r.bug == staleLock && t.Status.ObservedGeneration != t.Generation {
		if ok, err := r.lock(ctx, t); err != nil || !ok {
			return err
		}
	}
	before := t.DeepCopy()
	if err := r.store(ctx, t); err != nil {
		return err
	}
	if err := r.updateStatus(ctx, before, t, readyCondition()); err != nil || r.bug != staleLock {
		return err
	}
	return r.setLock(ctx, t, "")
}

// store applies the data and then the checksum.
func (r *transfers) store(ctx context.Context, t *v1.Transfer) error {
	key := client.ObjectKeyFromObject(t)
	if r.bug == noMark && r.failed[key] {
		data := &corev1.ConfigMap{}
		err := r.Get(ctx, types.NamespacedName{Namespace: t.Namespace, Name: t.Name + "-data"}, data)
		if err == nil && data.Data["data"] == t.Spec.Data && data.Data["incomplete"] == "" {
			return nil // without a mark, the checksum exists
		}
	}
	token, err := r.token(ctx, t)
	if err != nil {
		return err
	}
	data := &corev1.ConfigMap{ObjectMeta: childMeta(t, t.Name+"-data")}
	err = r.apply(ctx, t, data, func() {
		if token == "" {
			token = cmp.Or(data.Data["token"], rand.Text())
		}
		data.Data = map[string]string{"data": t.Spec.Data, "token": token}
	})
	if err != nil {
		return err
	}
	fingerprint := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:4])
	}
	checksum := &corev1.ConfigMap{ObjectMeta: childMeta(t, t.Name+"-checksum")}
	err = r.apply(ctx, t, checksum, func() {
		checksum.Data = map[string]string{"data": fingerprint(t.Spec.Data), "token": fingerprint(token)}
	})
	if err != nil && r.bug == noMark {
		r.failed[key] = true
		data.Data["incomplete"] = "true"
		if err := r.Update(ctx, data); err != nil {
			log.FromContext(ctx).Error(err, "marking the data as incomplete")
		}
	}
	return err
}

// token returns the token of mutant token-copy. It is empty for other operators, which keep the one in the cache.
func (r *transfers) token(ctx context.Context, t *v1.Transfer) (string, error) {
	if r.bug != tokenCopy {
		return "", nil
	}
	data := &corev1.ConfigMap{}
	err := r.apiReader.Get(ctx, types.NamespacedName{Namespace: t.Namespace, Name: t.Name + "-data"}, data)
	key := client.ObjectKeyFromObject(t)
	switch {
	case err == nil && data.Data["token"] != "":
		r.tokens[key] = data.Data["token"]
	case err == nil || apierrors.IsNotFound(err) || r.tokens[key] == "":
		r.tokens[key] = rand.Text()
	}
	return r.tokens[key], ctx.Err()
}

// lock locks a Transfer for this process, and reports whether it is locked.
func (r *transfers) lock(ctx context.Context, t *v1.Transfer) (bool, error) {
	key := client.ObjectKeyFromObject(t)
	switch owner := t.Annotations[lockAnnotation]; {
	case owner == r.process:
		return true, nil
	case owner == "":
		return true, r.setLock(ctx, t, r.process)
	case !r.unlocked[key]:
		r.unlocked[key] = true
		if err := r.setLock(ctx, t, ""); err != nil {
			log.FromContext(ctx).Error(err, "removing the lock of another process")
		}
		return false, nil // the event of the update starts the next reconcile
	default:
		return false, nil // another process works on it
	}
}

// setLock stores the owner of the lock, or removes the lock.
func (r *transfers) setLock(ctx context.Context, t *v1.Transfer, owner string) error {
	if t.Annotations[lockAnnotation] == owner {
		return nil
	}
	metav1.SetMetaDataAnnotation(&t.ObjectMeta, lockAnnotation, owner)
	if owner == "" {
		delete(t.Annotations, lockAnnotation)
	}
	if err := r.Update(ctx, t); err != nil {
		return fmt.Errorf("storing the lock: %w", err)
	}
	return nil
}
