package mutants

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator whose result for a spec depends on earlier specs.
const (
	merge        bug = "merge"
	keepOptional bug = "keep-optional"
	frozenOnce   bug = "frozen-once"
)

func pathDependenceMutants() class {
	return class{
		name: "path-dependence", setup: setupProxies, account: constantAccount("proxy"),
		flaws: []flaw{
			{merge, "Settings are merged into the ConfigMap. A setting that is removed from the spec remains there."},
			{keepOptional, "The second Service is created on request. It is not deleted when the spec no longer requests it."},
			{frozenOnce, "An immutable ConfigMap is never replaced, even if the spec has changed."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) {
				k.Apply(newProxy(v1.ProxySpec{Settings: map[string]string{"timeout": "1s", "trace": "on"}, Metrics: true}))
			}},
			{"change", func(k *testkit.K) {
				k.Apply(newProxy(v1.ProxySpec{Settings: map[string]string{"timeout": "2s"}, Metrics: false}))
			}},
			{"freeze", func(k *testkit.K) {
				k.Apply(newProxy(v1.ProxySpec{Settings: map[string]string{"timeout": "2s"}, Frozen: true}))
			}},
			{"change what is frozen", func(k *testkit.K) {
				k.Apply(newProxy(v1.ProxySpec{Settings: map[string]string{"timeout": "3s"}, Frozen: true}))
			}},
			{"thaw", func(k *testkit.K) {
				k.Apply(newProxy(v1.ProxySpec{Settings: map[string]string{"timeout": "3s"}}))
			}},
		},
	}
}

func newProxy(spec v1.ProxySpec) *v1.Proxy {
	return &v1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "front"}, Spec: spec}
}

func setupProxies(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &proxies{newOperator(mgr, b)}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Proxy{}).Owns(&corev1.ConfigMap{}).Owns(&corev1.Service{}).
			Complete(newReconciler(r.reconcile))
	}
}

type proxies struct{ operator }

func (r *proxies) reconcile(ctx context.Context, req reconcile.Request) error {
	p := &v1.Proxy{}
	if err := r.Get(ctx, req.NamespacedName, p); err != nil || !p.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	before := p.DeepCopy()
	if err := r.applySettings(ctx, p); err != nil {
		return err
	}
	if err := r.applyService(ctx, p, p.Name, 80); err != nil {
		return err
	}
	if err := r.applyMetrics(ctx, p); err != nil {
		return err
	}
	return r.updateStatus(ctx, before, p, readyCondition())
}

func (r *proxies) applySettings(ctx context.Context, p *v1.Proxy) error {
	cm := &corev1.ConfigMap{ObjectMeta: childMeta(p, p.Name)}
	if err := r.Get(ctx, client.ObjectKeyFromObject(cm), cm); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the settings: %w", err)
	}
	if cm.Immutable != nil && *cm.Immutable {
		switch {
		case r.bug == frozenOnce, p.Spec.Frozen && maps.Equal(cm.Data, p.Spec.Settings):
			return nil
		default:
			if err := r.delete(ctx, cm); err != nil {
				return err
			}
			return errStale // the next reconcile creates another one
		}
	}
	return r.apply(ctx, p, cm, func() {
		if r.bug != merge || cm.Data == nil {
			cm.Data = map[string]string{}
		}
		maps.Copy(cm.Data, p.Spec.Settings)
		cm.Immutable = nil
		if p.Spec.Frozen {
			cm.Immutable = new(true)
		}
	})
}

func (r *proxies) applyMetrics(ctx context.Context, p *v1.Proxy) error {
	name := p.Name + "-metrics"
	switch {
	case p.Spec.Metrics:
		return r.applyService(ctx, p, name, 9090)
	case r.bug == keepOptional:
		return nil
	default:
		return r.deleteChild(ctx, p, &corev1.Service{ObjectMeta: childMeta(p, name)})
	}
}
