package testkit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
)

// Eventually waits until the object named by obj passes all checks at once, and copies that state to obj. It watches
// the object, so it returns as soon as possible and sees short-lived states. After K.Timeout the test fails with the
// unmet checks and the last state of the object.
func (k *K) Eventually(obj client.Object, checks ...Check) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), k.Timeout)
	defer cancel()
	s, err := k.watch(obj, checks)
	k.obs.record("waits until %s %s is: %s", s.kind(), obj.GetName(), names(checks))
	if err == nil {
		err = s.follow(ctx, func() bool { return s.unmet == "" })
	}
	if err == nil {
		k.obs.record("%s %s is: %s", s.kind(), obj.GetName(), names(checks))
	} else {
		k.t.Fatalf("waiting for %s %s: not within %v: %v%s", s.kind(), s.name(), k.Timeout, err, s.describe())
	}
}

// Consistently fails the test if the object fails one of the checks at any moment within the given time.
func (k *K) Consistently(obj client.Object, during time.Duration, checks ...Check) {
	k.t.Helper()
	// The time starts with the first state: on a busy machine the first request may take longer than the given time.
	ctx, cancel := context.WithTimeout(k.Context(), k.Timeout+during)
	defer cancel()
	var over atomic.Bool
	begin := sync.OnceFunc(func() {
		time.AfterFunc(during, func() {
			over.Store(true)
			cancel()
		})
	})
	s, err := k.watch(obj, checks)
	k.obs.record("looks for %v whether %s %s stays: %s", during, s.kind(), obj.GetName(), names(checks))
	if err == nil {
		err = s.follow(ctx, func() bool {
			begin()
			return s.unmet != ""
		})
	}
	switch {
	case err == nil:
		k.t.Fatalf("watching %s %s for %v: it changed%s", s.kind(), s.name(), during, s.describe())
	case !over.Load():
		k.t.Fatalf("watching %s %s for %v: %v", s.kind(), s.name(), during, err)
	}
}

// names joins the names of checks.
func names(checks []Check) string {
	all := make([]string, len(checks))
	for i, check := range checks {
		all[i] = check.Name
	}
	return strings.Join(all, ", ")
}

// presence is the existence of an object in its last observed state.
type presence int

const (
	unknown presence = iota
	missing
	present
)

// An objectWatch follows one object.
type objectWatch struct {
	k        *K
	obj      client.Object // the test's object, overwritten with each state
	list     *unstructured.UnstructuredList
	checks   []Check
	uid      string // the UID to begin with; empty if it was not known
	presence presence
	last     *unstructured.Unstructured
	unmet    string // the unmet part of the checks in the last state
}

func (k *K) watch(obj client.Object, checks []Check) (*objectWatch, error) {
	s := &objectWatch{k: k, obj: obj, checks: checks, uid: string(obj.GetUID())}
	if _, err := k.locate(obj); err != nil {
		return s, err
	}
	gvk, err := apiutil.GVKForObject(obj, k.conn.scheme)
	if err != nil {
		return s, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	s.list = &unstructured.UnstructuredList{}
	s.list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return s, nil
}

// follow evaluates each state of the object until done returns true or ctx ends.
func (s *objectWatch) follow(ctx context.Context, done func() bool) error {
	key := client.ObjectKeyFromObject(s.obj)
	opts := &client.ListOptions{
		Namespace:     key.Namespace,
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name),
	}
	for {
		finished, err := s.round(ctx, opts, done)
		if finished || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// round lists and then watches. It returns when the server ends the watch, which may happen at any time.
func (s *objectWatch) round(ctx context.Context, opts *client.ListOptions, done func() bool) (bool, error) {
	opts.Raw = nil
	if err := s.k.Client.List(ctx, s.list, opts); err != nil {
		return false, fmt.Errorf("listing: %w", err)
	}
	var current *unstructured.Unstructured
	if len(s.list.Items) > 0 {
		current = &s.list.Items[0]
	}
	if err := s.evaluate(current); err != nil || done() {
		return err == nil, err
	}
	opts.Raw = &metav1.ListOptions{ResourceVersion: s.list.GetResourceVersion()}
	w, err := s.k.Client.Watch(ctx, s.list, opts)
	if err != nil {
		return false, fmt.Errorf("watching: %w", err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		u, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			return false, nil
		}
		if event.Type == watch.Deleted {
			u = nil
		}
		if err := s.evaluate(u); err != nil || done() {
			return err == nil, err
		}
	}
	return false, nil
}

// evaluate runs the checks on one state. Nil means that the object does not exist.
func (s *objectWatch) evaluate(u *unstructured.Unstructured) error {
	s.presence = missing
	if u != nil {
		s.presence = present
		s.last = u
		if err := manifest.ToObject(u, s.obj); err != nil {
			return err
		}
	}
	var unmet []string
	for _, check := range s.checks {
		obj := s.obj
		if u == nil || check.identity && s.uid != "" && s.uid != string(u.GetUID()) {
			obj = nil
		}
		if why := check.Missing(obj); why != "" {
			unmet = append(unmet, fmt.Sprintf("%s: %s", check.Name, why))
		}
	}
	s.unmet = strings.Join(unmet, "\n  ")
	return nil
}

func (s *objectWatch) kind() string {
	if s.list == nil {
		return fmt.Sprintf("%T", s.obj)
	}
	return strings.TrimSuffix(s.list.GetKind(), "List")
}

func (s *objectWatch) name() string { return client.ObjectKeyFromObject(s.obj).String() }

// describe returns the unmet checks and the object.
func (s *objectWatch) describe() string {
	var b strings.Builder
	if s.unmet != "" {
		fmt.Fprintf(&b, "\n  %s", s.unmet)
	}
	switch {
	case s.presence == missing && s.last == nil:
		fmt.Fprint(&b, "\nthere was never such an object")
	case s.presence == missing:
		fmt.Fprintf(&b, "\nit is gone; before that it was:\n%s", render(s.last))
	case s.presence == present:
		fmt.Fprintf(&b, "\nlast seen:\n%s", render(s.last))
	}
	return b.String()
}

// render prints an object as YAML, without managed fields.
func render(u *unstructured.Unstructured) string {
	u = u.DeepCopy()
	u.SetManagedFields(nil)
	data, err := yaml.Marshal(u.Object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
