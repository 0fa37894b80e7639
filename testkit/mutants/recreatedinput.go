package mutants

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator whose input is deleted and created again.
const (
	noCreateEvent bug = "no-create-event"
	staleIndex    bug = "stale-index"
	otherUID      bug = "other-uid"
)

func recreatedInputMutants() class {
	const reason = "a short exploration does not recreate objects of the scenario"
	return class{
		name: "recreated-input", setup: setupPages, account: constantAccount("page"),
		flaws: []flaw{
			{noCreateEvent, "Creations of templates are filtered out. A Page whose template is created again stays empty."},
			{staleIndex, "The deletion of a template removes the index entry of its Pages, and nothing adds it again."},
			{otherUID, "The operator remembers the UID of the template, and rejects another one of the same name."},
		},
		undetected: map[bug]string{noCreateEvent: reason, staleIndex: reason},
		steps: []Step{
			{"create", func(k *testkit.K) {
				k.Apply(newTemplate("letter", "Dear reader"))
				k.Apply(newPage("invitation", "letter"))
			}},
			{"change the template", func(k *testkit.K) { k.Apply(newTemplate("letter", "Hello")) }},
			{"create another", func(k *testkit.K) {
				k.Apply(newTemplate("card", "Hi"))
				k.Apply(newPage("reminder", "letter"))
			}},
			{"use another template", func(k *testkit.K) { k.Apply(newPage("reminder", "card")) }},
			{"delete a template", func(k *testkit.K) { k.Delete(newTemplate("card", "")) }},
		},
	}
}

func newTemplate(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"text": text}}
}

func newPage(name, template string) *v1.Page {
	return &v1.Page{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PageSpec{Template: template}}
}

func setupPages(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &pages{
			operator: newOperator(mgr, b), index: map[types.NamespacedName]map[string]bool{},
			uids: map[types.NamespacedName]types.UID{},
		}
		filter := predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return b != noCreateEvent }}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Page{}).Owns(&corev1.ConfigMap{}).
			Watches(&corev1.ConfigMap{}, r.templateHandler(), builder.WithPredicates(filter)).
			Complete(newReconciler(r.reconcile))
	}
}

type pages struct {
	operator

	mu    sync.Mutex
	index map[types.NamespacedName]map[string]bool // template -> Pages, of mutant stale-index
	uids  map[types.NamespacedName]types.UID       // template -> UID, of mutant other-uid
}

func (r *pages) templateHandler() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		if r.bug == staleIndex {
			return r.indexed(obj)
		}
		return r.pagesOf(ctx, obj)
	})
}

// pagesOf returns the Pages with a template.
func (r *pages) pagesOf(ctx context.Context, template client.Object) []reconcile.Request {
	list := &v1.PageList{}
	if r.List(ctx, list, client.InNamespace(template.GetNamespace())) != nil {
		return nil // the cache is being stopped
	}
	var requests []reconcile.Request
	for _, p := range list.Items {
		if p.Spec.Template == template.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&p)})
		}
	}
	return requests
}

// indexed is pagesOf with an index that each reconcile of a Page with a template extends.
func (r *pages) indexed(template client.Object) []reconcile.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(template)
	var requests []reconcile.Request
	for name := range r.index[key] {
		page := types.NamespacedName{Namespace: key.Namespace, Name: name}
		requests = append(requests, reconcile.Request{NamespacedName: page})
	}
	return requests
}

func (r *pages) reconcile(ctx context.Context, req reconcile.Request) error {
	p := &v1.Page{}
	if err := r.Get(ctx, req.NamespacedName, p); err != nil || !p.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	before := p.DeepCopy()
	template := &corev1.ConfigMap{ObjectMeta: childMeta(p, p.Spec.Template)}
	err := r.Get(ctx, client.ObjectKeyFromObject(template), template)
	page := &corev1.ConfigMap{ObjectMeta: childMeta(p, p.Name+"-page")}
	switch {
	case apierrors.IsNotFound(err) || err == nil && !r.accepts(template):
		r.forget(p)
		if err := r.deleteChild(ctx, p, page); err != nil {
			return err
		}
		return r.updateStatus(ctx, before, p, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: "NoTemplate",
			Message: fmt.Sprintf("there is no ConfigMap %s: create it, with a key called text", p.Spec.Template),
		})
	case err != nil:
		return fmt.Errorf("reading the template: %w", err)
	}
	r.remember(p, template)
	err = r.apply(ctx, p, page, func() { page.Data = map[string]string{"text": template.Data["text"]} })
	if err != nil {
		return err
	}
	return r.updateStatus(ctx, before, p, readyCondition())
}

// accepts reports whether the template may be used.
func (r *pages) accepts(template *corev1.ConfigMap) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	uid, known := r.uids[client.ObjectKeyFromObject(template)]
	return r.bug != otherUID || !known || uid == template.UID
}

// remember notes that a Page uses a template.
func (r *pages) remember(p *v1.Page, template *corev1.ConfigMap) {
	key := client.ObjectKeyFromObject(template)
	r.addToIndex(p, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uids[key] = template.UID
}

// forget removes the index entry of a template that was deleted. One that has never existed keeps it.
func (r *pages) forget(p *v1.Page) {
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Spec.Template}
	r.mu.Lock()
	_, existed := r.uids[key]
	if existed {
		delete(r.index, key)
	}
	r.mu.Unlock()
	if !existed {
		r.addToIndex(p, key)
	}
}

func (r *pages) addToIndex(p *v1.Page, template types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.index[template] == nil {
		r.index[template] = map[string]bool{}
	}
	r.index[template][p.Name] = true
}
