package explore

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/quiescence"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
)

// This file is about objects of other owners that have the names of children: see fault.Run.PlaceForeign. The states of such
// a run are not compared with the baseline's. Still required are an idle operator, a true status, the deletion of the custom
// resources and of the operator's own objects, and that the objects of other owners stay as they are.

// foreignObject is an object of another owner.
type foreignObject struct {
	child     baseline.Child // whose name it has
	kind      string
	uid       types.UID
	namespace string
	name      string
	since     time.Duration // since the start of the interceptor
}

// foreignObjects is safe for concurrent use.
type foreignObjects struct {
	mu      sync.Mutex
	objects []foreignObject
	awaited bool // the operator had the time to react to the last one
}

func (f *foreignObjects) add(o foreignObject) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects = append(f.objects, o)
	f.awaited = false
}

// setAwaited records that the operator had the time to react to the last object.
func (f *foreignObjects) setAwaited() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awaited = true
}

// notAwaited returns the last object, and false if there is none or the operator had the time to react to it.
func (f *foreignObjects) notAwaited() (foreignObject, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.awaited || len(f.objects) == 0 {
		return foreignObject{}, false
	}
	return f.objects[len(f.objects)-1], true
}

func (f *foreignObjects) all() []foreignObject {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.objects)
}

func (f *foreignObjects) any() bool { return len(f.all()) > 0 }

// newForeignClient returns a client whose requests are not recorded.
func newForeignClient(cfg *rest.Config) (dynamic.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for objects of other owners: %w", err)
	}
	return c, nil
}

// contentOf returns an object in JSON, without the namespace of the run.
func (v *view) contentOf(u *unstructured.Unstructured) []byte {
	data, err := json.Marshal(u.Object)
	if err != nil {
		return nil // cannot happen: it was decoded from JSON
	}
	return []byte(strings.ReplaceAll(string(data), v.space.Namespace, baseline.NamespacePlaceholder))
}

// deletionTime is the time within which a deleted child must be gone before another object can have its name.
const deletionTime = 2 * time.Second

// PlaceForeign implements fault.Run.
func (c controls) PlaceForeign(child baseline.Child) bool {
	object, err := fault.ForeignObject(child, c.r.space.Namespace)
	if err == nil {
		err = c.r.placeForeign(child, object)
	}
	if err != nil {
		c.MarkUntried("an object of another owner cannot be created: " + err.Error())
		return false
	}
	c.LogFault(fmt.Sprintf("another owner creates %s", timeline.Name(object)))
	return true
}

func (r *run) placeForeign(child baseline.Child, object *unstructured.Unstructured) error {
	gvk := object.GroupVersionKind()
	mapping, err := r.space.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return fmt.Errorf("finding the resource: %w", err)
	}
	create := r.x.others.Resource(mapping.Resource).Namespace(object.GetNamespace()).Create
	ctx, began := r.space.Context(), time.Now()
	since := time.Since(r.operator.Began())
	for {
		made, err := create(ctx, object, metav1.CreateOptions{FieldManager: "another-owner"})
		if err == nil {
			r.foreign.add(foreignObject{child, made.GetKind(), made.GetUID(), made.GetNamespace(), made.GetName(), since})
			return nil
		}
		if !apierrors.IsAlreadyExists(err) || time.Since(began) > deletionTime {
			return fmt.Errorf("creating %s: %w", timeline.Name(object), err)
		}
		select {
		case <-time.After(quiescence.StepQuietPeriod / 3):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stuckOnForeign returns a function that reports whether a step waits in vain, because another owner has the name of a
// child: nothing happens any more.
func (r *run) stuckOnForeign() func() bool {
	operator := r.idle.OperatorIdle()
	bothIdle := func() (time.Duration, bool) {
		idle, still := operator()
		busy, user := r.user.Busy()
		return min(idle, user), still && !busy
	}
	return func() bool {
		quiet := r.untilReaction(3 * quiescence.FinalQuietPeriod)
		if !r.foreign.any() || !r.idle.HasBeenIdle(r.space.Context(), quiet, bothIdle) {
			return false
		}
		r.foreign.setAwaited()
		return true
	}
}

// foreignReactionTime is the time in which an operator reacts to an object of another owner, or not at all.
const foreignReactionTime = 3 * time.Second

// untilReaction returns a quiet period. After another owner created an object with the name of a child, it is extended until
// the operator sends a write or has been idle for foreignReactionTime: its workers may not have started, and no state of the
// run tells that.
func (r *run) untilReaction(quiet time.Duration) time.Duration {
	last, ok := r.foreign.notAwaited()
	if !ok || slices.ContainsFunc(r.operator.Calls(), func(c intercept.Call) bool {
		return c.IsWrite() && !intercept.IsLease(c.Request) && c.Began > last.since
	}) {
		return quiet
	}
	const part = 2 // the timeout has to be longer
	return max(quiet, min(foreignReactionTime, r.x.Timeout/part))
}

// checkReadyWithForeign reports a custom resource whose status says Ready since another owner has the name of its child, or
// nil. An operator that cannot write the child may leave an earlier status as it is.
func (r *run) checkReadyWithForeign(step int, primary *unstructured.Unstructured) *report.Violation {
	if r.baseline == nil || step >= len(r.baseline.Children) {
		return nil
	}
	observed, ok := readiness.ObservedGeneration(primary)
	if ok && observed < primary.GetGeneration() {
		return nil // it is not yet about this state
	}
	for _, o := range r.foreign.all() {
		needed := slices.ContainsFunc(r.baseline.Children[step], func(c baseline.Child) bool { return c.Name == o.child.Name })
		// checkForeign reports an operator that wrote to the object.
		if needed && r.exists(o.uid) && r.owns(primary, o.child) && r.wroteStatus(primary, o.since) && r.writeTo(o) == "" {
			return &report.Violation{Oracle: oracleStatus, Detail: describe(primary), Message: fmt.Sprintf(
				"%s %s says Ready, and its %s belongs to another owner", r.after(step), timeline.Name(primary), o.child.Name)}
		}
	}
	return nil
}

// exists reports whether an object still exists: the scenario may have deleted the one of another owner.
func (v *view) exists(uid types.UID) bool {
	return slices.ContainsFunc(v.log.CurrentObjects(), func(c history.Change) bool { return c.Object.GetUID() == uid })
}

// wroteStatus reports whether the operator has written the status of an object after a time.
func (r *run) wroteStatus(u *unstructured.Unstructured, since time.Duration) bool {
	return slices.ContainsFunc(r.operator.Calls(), func(c intercept.Call) bool {
		return c.UID == string(u.GetUID()) && c.Subresource == "status" && c.IsWrite() && c.Began > since &&
			c.Reached && c.Code < http.StatusMultipleChoices
	})
}

// owns reports whether the child has this custom resource as its controller in the baseline.
func (r *run) owns(primary *unstructured.Unstructured, child baseline.Child) bool {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(child.Content, &object) != nil {
		return false
	}
	owner := metav1.GetControllerOf(&object)
	return owner != nil && owner.Kind == primary.GetKind() &&
		strings.ReplaceAll(owner.Name, baseline.NamespacePlaceholder, r.space.Namespace) == primary.GetName()
}

// waitsForForeign reports whether the status of a custom resource that is being deleted names an object of another owner,
// for example because the operator cannot save the data before it deletes them. Its user knows then what to do.
func (r *run) waitsForForeign(c history.Change) bool {
	if c.Object.GetDeletionTimestamp() == nil {
		return false
	}
	status, err := json.Marshal(c.Object.Object["status"])
	if err != nil {
		return false // cannot happen: it was decoded from JSON
	}
	return slices.ContainsFunc(r.foreign.all(), func(o foreignObject) bool {
		named := regexp.MustCompile(`\b` + o.kind + `\b.*\b` + regexp.QuoteMeta(o.name) + `\b`)
		return named.Match(status)
	})
}

// residueBesideForeign reports an object of the operator that is left beside one of another owner, or nil. Without one, the
// comparison with the baseline finds it.
func (r *run) residueBesideForeign() *report.Violation {
	if !r.foreign.any() {
		return nil
	}
	for _, c := range r.residue() {
		return &report.Violation{
			Oracle: oracleResidue, Detail: describe(c.Object),
			Message: fmt.Sprintf("%s is left after the custom resources were deleted", r.name(c)),
		}
	}
	return nil
}

// checkForeign finds objects of other owners that the operator changed or deleted.
func (ch checks) checkForeign() {
	for _, o := range ch.foreign.all() {
		if by := ch.writeTo(o); by != "" {
			ch.addViolation(oracleForeign, fmt.Sprintf("the operator changed %s, which another owner had created", o.child.Name), by)
		}
		if by := ch.deletionOf(o); by != "" {
			ch.addViolation(oracleForeign, fmt.Sprintf("the operator deleted %s, which another owner had created", o.child.Name), by)
		}
		if by := ch.creationIn(o); by != "" {
			ch.addViolation(oracleForeign, fmt.Sprintf("the operator created an object in %s, which another owner had created",
				o.child.Name), by)
		}
	}
}

// creationIn returns the first request by which the operator created an object in a Namespace of another owner, or "".
func (ch checks) creationIn(o foreignObject) string {
	if o.kind != "Namespace" {
		return ""
	}
	for _, c := range ch.operator.Calls() {
		if c.Namespace == o.name && c.Code == http.StatusCreated && c.Subresource == "" && !c.DryRun && c.Resource != "events" &&
			c.Ended > o.since {
			return c.String()
		}
	}
	return ""
}

// writeTo returns the first request by which the operator changed an object of another owner, or "".
func (r *run) writeTo(o foreignObject) string {
	effective := r.effective()
	for i, c := range r.operator.Calls() {
		isStatus := c.Subresource == "status" && r.writesStatusOf(o.child.Kind) // the operator serves all objects of the kind
		if effective[i] && c.Verb != "delete" && c.UID == string(o.uid) && !isStatus {
			return c.String() + r.writeEffect(c, r.began)
		}
	}
	return ""
}

// deletionOf returns the request by which the operator deleted an object of another owner, or "".
func (ch checks) deletionOf(o foreignObject) string {
	deleted := slices.IndexFunc(ch.changes, func(c history.Change) bool {
		return c.Object.GetUID() == o.uid && (c.Type == watch.Deleted || c.Object.GetDeletionTimestamp() != nil)
	})
	if deleted < 0 {
		return ""
	}
	for _, c := range ch.operator.Calls() {
		names := c.Verb == "delete" && c.Name == o.name || c.Verb == "deletecollection"
		if names && c.Reached && c.Code < http.StatusMultipleChoices && !c.DryRun && c.Ended > o.since &&
			c.Namespace == o.namespace && intercept.GroupResourceOf(c.Request) == o.child.Kind {
			return c.String()
		}
	}
	return ""
}
