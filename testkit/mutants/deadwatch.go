package mutants

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator with a watch that it opens itself, without an informer.
const (
	endsWhenClosed  bug = "ends-when-closed"
	endsWhenExpired bug = "ends-when-expired"
	noRelist        bug = "no-relist"
)

func deadWatchMutants() class {
	return class{
		name: "dead-watch", setup: setupMirrors, account: constantAccount("mirror"),
		flaws: []flaw{
			{endsWhenClosed, "The goroutine of the watch returns when the watch is closed. Later changes of Secrets are missed."},
			{endsWhenExpired, "The goroutine of the watch returns at an error event, such as 410 Gone."},
			{noRelist, "A watch that is opened again starts with the current state. Changes since the last event are missed."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) {
				k.Apply(newPassword("db", "one"))
				k.Apply(newMirror("app", "db"))
			}},
			{"change the Secret", func(k *testkit.K) { k.Apply(newPassword("db", "two")) }},
			{"create another", func(k *testkit.K) { k.Apply(newMirror("web", "db")) }},
			{"delete the Secret", func(k *testkit.K) { k.Delete(newPassword("db", "")) }},
		},
	}
}

func newPassword(name, password string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"password": []byte(password)}}
}

func newMirror(name, secret string) *v1.Mirror {
	return &v1.Mirror{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.MirrorSpec{Secret: secret}}
}

func setupMirrors(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		c, err := client.NewWithWatch(mgr.GetConfig(), client.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		})
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		r := &mirrors{
			operator: newOperator(mgr, b), watcher: c, events: make(chan event.GenericEvent), namespaces: make(chan string),
		}
		if err := mgr.Add(manager.RunnableFunc(r.runWatches)); err != nil {
			return fmt.Errorf("adding the watch of Secrets: %w", err)
		}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Mirror{}).Owns(&corev1.ConfigMap{}).
			WatchesRawSource(source.Channel(r.events, handler.EnqueueRequestsFromMapFunc(r.mirrorsOf))).
			Complete(newReconciler(r.reconcile))
	}
}

type mirrors struct {
	operator

	watcher    client.WithWatch
	events     chan event.GenericEvent
	namespaces chan string // of Mirrors
}

// runWatches runs one watch of Secrets in each namespace with a Mirror.
func (r *mirrors) runWatches(ctx context.Context) error {
	running := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case namespace := <-r.namespaces:
			if !running[namespace] {
				running[namespace] = true
				go r.watchSecrets(ctx, namespace)
			}
		}
	}
}

// watchSecrets sends an event for each change of a Secret.
func (r *mirrors) watchSecrets(ctx context.Context, namespace string) {
	for first := true; ctx.Err() == nil; first = false {
		end, err := r.watchOnce(ctx, namespace, first || r.bug != noRelist)
		switch {
		case err != nil:
			log.FromContext(ctx).Error(err, "watching Secrets")
		case r.bug == endsWhenClosed, r.bug == endsWhenExpired && end == watch.Error:
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// watchOnce lists the Secrets and watches them until the watch ends. It returns the type of the last event.
func (r *mirrors) watchOnce(ctx context.Context, namespace string, announce bool) (watch.EventType, error) {
	list := &corev1.SecretList{}
	if err := r.watcher.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("listing: %w", err)
	}
	if announce {
		// Without a name it stands for all Secrets, because some may have been deleted since the last event.
		r.send(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}})
	}
	w, err := r.watcher.Watch(ctx, &corev1.SecretList{}, client.InNamespace(namespace), &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
	})
	if err != nil {
		return "", fmt.Errorf("opening the watch: %w", err)
	}
	defer w.Stop()
	var last watch.EventType
	for e := range w.ResultChan() {
		last = e.Type
		if secret, ok := e.Object.(*corev1.Secret); ok {
			r.send(ctx, secret)
		}
		if last == watch.Error {
			break
		}
	}
	return last, nil
}

func (r *mirrors) send(ctx context.Context, secret *corev1.Secret) {
	select {
	case r.events <- event.GenericEvent{Object: secret}:
	case <-ctx.Done():
	}
}

// mirrorsOf returns the Mirrors of a Secret.
func (r *mirrors) mirrorsOf(ctx context.Context, secret client.Object) []reconcile.Request {
	list := &v1.MirrorList{}
	if r.List(ctx, list, client.InNamespace(secret.GetNamespace())) != nil {
		return nil // the cache is being stopped
	}
	var requests []reconcile.Request
	for _, m := range list.Items {
		if secret.GetName() == "" || m.Spec.Secret == secret.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&m)})
		}
	}
	return requests
}

func (r *mirrors) reconcile(ctx context.Context, req reconcile.Request) error {
	m := &v1.Mirror{}
	if err := r.Get(ctx, req.NamespacedName, m); err != nil || !m.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	select {
	case r.namespaces <- m.Namespace:
	case <-ctx.Done():
		return nil
	}
	before := m.DeepCopy()
	secret := &corev1.Secret{ObjectMeta: childMeta(m, m.Spec.Secret)}
	child := &corev1.ConfigMap{ObjectMeta: childMeta(m, m.Name+"-mirror")}
	err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	switch {
	case apierrors.IsNotFound(err):
		if err := r.deleteChild(ctx, m, child); err != nil {
			return err
		}
		return r.updateStatus(ctx, before, m, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: "NoSecret",
			Message: fmt.Sprintf("there is no Secret %s: create it", m.Spec.Secret),
		})
	case err != nil:
		return fmt.Errorf("reading the Secret: %w", err)
	}
	data := map[string]string{}
	for key, value := range secret.Data {
		data[key] = string(value)
	}
	if err := r.apply(ctx, m, child, func() { child.Data = data }); err != nil {
		return err
	}
	return r.updateStatus(ctx, before, m, readyCondition())
}
