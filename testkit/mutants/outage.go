package mutants

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator that does not recover from errors of the API server.
const (
	givesUp      bug = "gives-up"
	finalError   bug = "final-error"
	failedList   bug = "failed-list"
	cachedOnFail bug = "cached-default"
)

func outageMutants() class {
	return class{
		name: "outage", setup: setupFeeds, account: func(b bug) string {
			if b == cachedOnFail {
				return "feed-direct"
			}
			return "feed"
		},
		flaws: []flaw{
			{givesUp, "After three errors in a row the operator does not retry. It waits for the next event."},
			{finalError, "An error is stored in the status as the result. The operator skips such objects until the spec changes."},
			{failedList, "The event of a post lists the Feeds from the API server. If the list fails, the event is dropped."},
			{cachedOnFail, "The settings are read once. If the read fails, the defaults apply until a restart."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) {
				k.Apply(newSettings(4))
				k.Apply(newPost("monday", "news", "rain all day"))
				k.Apply(newFeed("news", "news"))
			}},
			{"add a post", func(k *testkit.K) { k.Apply(newPost("tuesday", "news", "sun again")) }},
			{"change a post", func(k *testkit.K) { k.Apply(newPost("monday", "news", "snow")) }},
			{"create another", func(k *testkit.K) { k.Apply(newFeed("sport", "sport")) }},
			{"move a post", func(k *testkit.K) { k.Apply(newPost("tuesday", "sport", "sun again")) }},
		},
	}
}

// The names in Feed's API.
const (
	topicLabel   = "topic"
	settingsName = "feed-settings"
	lengthKey    = "length"
)

// defaultLength is the maximum length of a post in a digest without settings.
const defaultLength = 80

func newFeed(name, topic string) *v1.Feed {
	return &v1.Feed{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.FeedSpec{Topic: topic}}
}

func newPost(name, topic, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{topicLabel: topic}},
		Data:       map[string]string{"text": text},
	}
}

func newSettings(length int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: settingsName}, Data: map[string]string{lengthKey: strconv.Itoa(length)},
	}
}

func setupFeeds(b bug) func(manager.Manager) error { return setupFeedsWith(b, newReconciler) }

// setupFeedsWith is setupFeeds with a function that determines the handling of errors.
func setupFeedsWith(
	b bug, reconciler func(func(context.Context, reconcile.Request) error) reconcile.Reconciler,
) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &feeds{operator: newOperator(mgr, b), failures: map[types.NamespacedName]int{}}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Feed{}).Owns(&corev1.ConfigMap{}).
			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.feedsOf)).
			Complete(reconciler(r.reconcile))
	}
}

type feeds struct {
	operator

	failures map[types.NamespacedName]int // used by the only worker

	settingsOnce sync.Once
	maxLength    int // set by settingsOnce
}

// feedsOf returns the Feeds of a post, or all if the settings have changed.
func (r *feeds) feedsOf(ctx context.Context, obj client.Object) []reconcile.Request {
	topic, isPost := obj.GetLabels()[topicLabel]
	if !isPost && obj.GetName() != settingsName {
		return nil
	}
	reader := client.Reader(r)
	if r.bug == failedList {
		reader = r.apiReader
	}
	list := &v1.FeedList{}
	if err := reader.List(ctx, list, client.InNamespace(obj.GetNamespace())); err != nil {
		log.FromContext(ctx).Error(err, "listing the feeds")
		return nil
	}
	var requests []reconcile.Request
	for _, f := range list.Items {
		if !isPost || f.Spec.Topic == topic {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&f)})
		}
	}
	return requests
}

func (r *feeds) reconcile(ctx context.Context, req reconcile.Request) error {
	err := r.collect(ctx, req)
	if r.bug != givesUp {
		return err
	}
	if err == nil {
		delete(r.failures, req.NamespacedName)
		return nil
	}
	r.failures[req.NamespacedName]++
	if r.failures[req.NamespacedName] < 3 {
		return err
	}
	log.FromContext(ctx).Error(err, "giving up")
	return nil
}

// collect updates one digest.
func (r *feeds) collect(ctx context.Context, req reconcile.Request) error {
	f := &v1.Feed{}
	if err := r.Get(ctx, req.NamespacedName, f); err != nil || !f.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	failed := meta.FindStatusCondition(f.Status.Conditions, "Ready")
	if r.bug == finalError && failed != nil && failed.Reason == "Failed" && failed.ObservedGeneration == f.Generation {
		return nil
	}
	before := f.DeepCopy()
	if err := r.applyDigest(ctx, f); err != nil {
		if r.bug != finalError {
			return err
		}
		return r.updateStatus(ctx, before, f, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: "Failed", Message: err.Error(),
		})
	}
	return r.updateStatus(ctx, before, f, readyCondition())
}

func (r *feeds) applyDigest(ctx context.Context, f *v1.Feed) error {
	length, err := r.length(ctx, f.Namespace)
	if err != nil {
		return err
	}
	posts := &corev1.ConfigMapList{}
	err = r.List(ctx, posts, client.InNamespace(f.Namespace), client.MatchingLabels{topicLabel: f.Spec.Topic})
	if err != nil {
		return fmt.Errorf("listing the posts: %w", err)
	}
	data := map[string]string{}
	for _, post := range posts.Items {
		text := post.Data["text"]
		data[post.Name] = text[:min(len(text), length)]
	}
	digest := &corev1.ConfigMap{ObjectMeta: childMeta(f, f.Name+"-digest")}
	return r.apply(ctx, f, digest, func() { digest.Data = data })
}

// length returns the maximum length of a post.
func (r *feeds) length(ctx context.Context, namespace string) (int, error) {
	if r.bug == cachedOnFail {
		r.settingsOnce.Do(func() { r.maxLength, _ = r.readLength(ctx, r.apiReader, namespace) })
		return r.maxLength, nil
	}
	return r.readLength(ctx, r, namespace)
}

func (r *feeds) readLength(ctx context.Context, reader client.Reader, namespace string) (int, error) {
	cm := &corev1.ConfigMap{}
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: settingsName}, cm)
	switch {
	case apierrors.IsNotFound(err):
		return defaultLength, nil
	case err != nil:
		return defaultLength, fmt.Errorf("reading the settings: %w", err)
	}
	length, err := strconv.Atoi(cm.Data[lengthKey])
	if err != nil || length < 0 {
		return defaultLength, nil //nolint:nilerr // a mistake of the user
	}
	return length, nil
}
