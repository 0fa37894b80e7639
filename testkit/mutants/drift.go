package mutants

import (
	"context"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator that does not repair its children, reports a false status, or modifies foreign objects.
const (
	noOwns         bug = "no-owns"
	swallowedError bug = "swallowed-error"
	clobber        bug = "clobber"
)

func driftMutants() class {
	return class{
		name: "drift", setup: setupWebsites, account: constantAccount("website"),
		flaws: []flaw{
			{noOwns, "Children are not watched. Changes by other clients are repaired only after a change of the spec."},
			{swallowedError, "An error in writing a child is only logged, and the status reports Ready."},
			{clobber, "Annotations of other clients are removed from a child."},
		},
		steps: websiteSteps(),
	}
}

func websiteSteps() []Step {
	return []Step{
		{"create", func(k *testkit.K) { k.Apply(newWebsite(true, "hello")) }},
		{"change", func(k *testkit.K) { k.Apply(newWebsite(true, "hello, world")) }},
		{"hide", func(k *testkit.K) { k.Apply(newWebsite(false, "hello, world")) }},
		{"show", func(k *testkit.K) { k.Apply(newWebsite(true, "hello, world")) }},
	}
}

func newWebsite(exposed bool, content string) *v1.Website {
	return &v1.Website{
		ObjectMeta: metav1.ObjectMeta{Name: "home"},
		Spec:       v1.WebsiteSpec{Exposed: exposed, Files: map[string]string{"index.html": content}},
	}
}

func setupWebsites(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &websites{newOperator(mgr, b)}
		c := ctrl.NewControllerManagedBy(mgr).For(&v1.Website{}, builder.WithPredicates(specChanged))
		if b != noOwns {
			c.Owns(&corev1.ConfigMap{}).Owns(&corev1.Service{})
		}
		return c.Complete(newReconciler(r.reconcile))
	}
}

// specChanged filters updates of the status by the operator itself. An object that replaced another one of the same name
// may have the same generation.
var specChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
}}

type websites struct{ operator }

func (r *websites) reconcile(ctx context.Context, req reconcile.Request) error {
	w := &v1.Website{}
	if err := r.Get(ctx, req.NamespacedName, w); err != nil || !w.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	before := w.DeepCopy()
	for _, step := range []func(context.Context, *v1.Website) error{r.applyFiles, r.expose} {
		if err := step(ctx, w); err != nil {
			if r.bug != swallowedError {
				return err
			}
			log.FromContext(ctx).Error(err, "something went wrong")
		}
	}
	return r.updateStatus(ctx, before, w, readyCondition())
}

func (r *websites) applyFiles(ctx context.Context, w *v1.Website) error {
	cm := &corev1.ConfigMap{ObjectMeta: childMeta(w, w.Name)}
	return r.apply(ctx, w, cm, func() {
		if r.bug == clobber {
			cm.Annotations = nil
		}
		metav1.SetMetaDataAnnotation(&cm.ObjectMeta, "mutants.homeostat.dev/files", strconv.Itoa(len(w.Spec.Files)))
		cm.Data = maps.Clone(w.Spec.Files)
	})
}

func (r *websites) expose(ctx context.Context, w *v1.Website) error {
	if !w.Spec.Exposed {
		return r.deleteChild(ctx, w, &corev1.Service{ObjectMeta: childMeta(w, w.Name)})
	}
	return r.applyService(ctx, w, w.Name, 80)
}
