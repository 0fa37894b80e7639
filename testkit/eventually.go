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

// Eventually waits until the object that obj names passes all checks at once, and leaves in obj what it saw then. It
// watches, so it neither waits longer than needed nor overlooks a state that lasts a moment. After K.Timeout the test
// fails with the checks that were not met and the object as it was last seen.
func (k *K) Eventually(obj client.Object, checks ...Check) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), k.Timeout)
	defer cancel()
	s, err := k.watch(obj, checks)
	k.seen.say("waits until %s %s is: %s", s.kind(), obj.GetName(), names(checks))
	if err == nil {
		err = s.follow(ctx, func() bool { return s.missing == "" })
	}
	if err == nil {
		k.seen.say("%s %s is: %s", s.kind(), obj.GetName(), names(checks))
	} else {
		k.t.Fatalf("waiting for %s %s: not within %v: %v%s", s.kind(), s.name(), k.Timeout, err, s.describe())
	}
}

// Consistently fails the test if the object stops passing one of the checks, at any moment, within the given time.
func (k *K) Consistently(obj client.Object, during time.Duration, checks ...Check) {
	k.t.Helper()
	// The time begins with the first look: on a busy machine that alone may take longer than it.
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
	k.seen.say("looks for %v whether %s %s stays: %s", during, s.kind(), obj.GetName(), names(checks))
	if err == nil {
		err = s.follow(ctx, func() bool {
			begin()
			return s.missing != ""
		})
	}
	switch {
	case err == nil:
		k.t.Fatalf("watching %s %s for %v: it changed%s", s.kind(), s.name(), during, s.describe())
	case !over.Load():
		k.t.Fatalf("watching %s %s for %v: %v", s.kind(), s.name(), during, err)
	}
}

// names lists checks.
func names(checks []Check) string {
	all := make([]string, len(checks))
	for i, check := range checks {
		all[i] = check.Name
	}
	return strings.Join(all, ", ")
}

// sight says whether the object was there when last looked for.
type sight int

const (
	never sight = iota
	missing
	present
)

// A sighting follows one object.
type sighting struct {
	k       *K
	obj     client.Object // the test's, overwritten with each state
	list    *unstructured.UnstructuredList
	checks  []Check
	uid     string // what the object's UID was at first; empty if it was not known
	seen    sight
	last    *unstructured.Unstructured
	missing string // what the checks miss in the last state
}

func (k *K) watch(obj client.Object, checks []Check) (*sighting, error) {
	s := &sighting{k: k, obj: obj, checks: checks, uid: string(obj.GetUID())}
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

// follow looks at each state of the object until done says so or ctx ends.
func (s *sighting) follow(ctx context.Context, done func() bool) error {
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
			return ctx.Err() //nolint:wrapcheck // the caller says what was waited for
		}
	}
}

// round lists and then watches until the watch ends, as the server may end it at any time.
func (s *sighting) round(ctx context.Context, opts *client.ListOptions, done func() bool) (bool, error) {
	opts.Raw = nil
	if err := s.k.Client.List(ctx, s.list, opts); err != nil {
		return false, fmt.Errorf("listing: %w", err)
	}
	var current *unstructured.Unstructured
	if len(s.list.Items) > 0 {
		current = &s.list.Items[0]
	}
	if err := s.see(current); err != nil || done() {
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
		if err := s.see(u); err != nil || done() {
			return err == nil, err
		}
	}
	return false, nil
}

// see judges one state. nil means that the object is not there.
func (s *sighting) see(u *unstructured.Unstructured) error {
	s.seen = missing
	if u != nil {
		s.seen, s.last = present, u
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
	s.missing = strings.Join(unmet, "\n  ")
	return nil
}

func (s *sighting) kind() string {
	if s.list == nil {
		return fmt.Sprintf("%T", s.obj)
	}
	return strings.TrimSuffix(s.list.GetKind(), "List")
}

func (s *sighting) name() string { return client.ObjectKeyFromObject(s.obj).String() }

// describe says what was missing and shows the object.
func (s *sighting) describe() string {
	var b strings.Builder
	if s.missing != "" {
		fmt.Fprintf(&b, "\n  %s", s.missing)
	}
	switch {
	case s.seen == missing && s.last == nil:
		fmt.Fprint(&b, "\nthere was never such an object")
	case s.seen == missing:
		fmt.Fprintf(&b, "\nit is gone; before that it was:\n%s", render(s.last))
	case s.seen == present:
		fmt.Fprintf(&b, "\nlast seen:\n%s", render(s.last))
	}
	return b.String()
}

// render prints an object as YAML without what nobody reads.
func render(u *unstructured.Unstructured) string {
	u = u.DeepCopy()
	u.SetManagedFields(nil)
	data, err := yaml.Marshal(u.Object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
