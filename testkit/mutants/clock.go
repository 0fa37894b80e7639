package mutants

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator with a time in its status.
const (
	everyStart bug = "every-start"
	rounded    bug = "rounded"
	transition bug = "transition"
	firstOnly  bug = "first-only"
)

func clockMutants() class {
	return class{
		name: "clock", setup: setupTimers, account: constantAccount("timer"),
		flaws: []flaw{
			{everyStart, "The first reconcile of each process sets the time of the last change, although nothing has changed."},
			{rounded, "Each reconcile sets the time in seconds. The operator is idle after it, but writes at the next event."},
			{transition, "Conditions are made anew for each generation. lastTransitionTime moves although Ready stays True."},
			{firstOnly, "The time of the last change is set once, and stays that of the first generation."},
		},
		undetected: map[bug]string{firstOnly: "no rule knows which change a time belongs to"},
		steps: []Step{
			{"create", func(k *testkit.K) { k.Apply(newTimer("egg", "5m")) }},
			{"change", func(k *testkit.K) { k.Apply(newTimer("egg", "7m")) }},
			{"create another", func(k *testkit.K) { k.Apply(newTimer("tea", "3m")) }},
			{"change back", func(k *testkit.K) { k.Apply(newTimer("egg", "5m")) }},
		},
	}
}

func newTimer(name, value string) *v1.Timer {
	return &v1.Timer{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.TimerSpec{Value: value}}
}

func setupTimers(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &timers{operator: newOperator(mgr, b), seen: map[types.NamespacedName]bool{}}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Timer{}).Owns(&corev1.ConfigMap{}).
			Complete(newReconciler(r.reconcile))
	}
}

type timers struct {
	operator

	seen map[types.NamespacedName]bool // Timers that this process has reconciled
}

func (r *timers) reconcile(ctx context.Context, req reconcile.Request) error {
	t := &v1.Timer{}
	if err := r.Get(ctx, req.NamespacedName, t); err != nil || !t.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	before := t.DeepCopy()
	cm := &corev1.ConfigMap{ObjectMeta: childMeta(t, t.Name)}
	err := r.apply(ctx, t, cm, func() { cm.Data = map[string]string{"value": t.Spec.Value} })
	if err != nil {
		return err
	}
	if r.isDue(t, req.NamespacedName) {
		now := time.Now()
		t.Status.LastChange = new(metav1.NewTime(now))
		t.Status.LastChangeUnix = now.Unix()
		t.Status.ChangedGeneration = t.Generation
	}
	if r.bug == transition && t.Status.ObservedGeneration != t.Generation {
		t.Status.Conditions = nil
	}
	r.seen[req.NamespacedName] = true
	return r.updateStatus(ctx, before, t, readyCondition())
}

// isDue reports whether the time in the status has to be set.
func (r *timers) isDue(t *v1.Timer, key types.NamespacedName) bool {
	switch r.bug {
	case everyStart:
		return !r.seen[key] || t.Status.ChangedGeneration != t.Generation
	case rounded:
		return true
	case firstOnly:
		return t.Status.LastChange == nil
	default:
		return t.Status.ChangedGeneration != t.Generation
	}
}
