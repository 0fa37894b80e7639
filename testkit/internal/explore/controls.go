package explore

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// controls implements fault.Run for one plan, which may be a part of the run's plan.
type controls struct {
	r    *run
	plan *fault.Plan
}

func (c controls) Space() *space.Space              { return c.r.space }
func (c controls) CurrentObjects() []history.Change { return c.r.log.CurrentObjects() }
func (c controls) Changes() []history.Change        { return c.r.log.Changes() }
func (c controls) Operator() *intercept.Interceptor { return c.r.operator }
func (c controls) LogFault(text string)             { c.r.logFault(c.plan, text) }
func (c controls) IsStepBlocked() bool              { return c.r.stepBlocked }
func (c controls) WaitAfterStep()                   { c.r.noWaitAfter = 0 }

func (c controls) MarkUntried(reason string) { c.r.setUntriedReason(c.plan, reason) }
func (c controls) Discard(reason string)     { c.r.discard(c.plan, reason) }
func (c controls) IsUntried() bool           { return c.r.untriedReason(c.plan) != "" }

func (c controls) Start() bool       { return c.r.procs.start() }
func (c controls) Crash(process int) { c.r.procs.crash(process, c.plan) }
func (c controls) KillAll()          { c.r.procs.killAll() }
func (c controls) Running() int      { return len(c.r.procs.running()) }

func (c controls) WaitIdle()              { c.r.idle.WaitIdle() }
func (c controls) Converge(step int) bool { return c.r.awaitConvergence(step) }
func (c controls) AwaitTrueStatus(step int) bool {
	return c.r.awaitTrueStatus(step)
}

func (c controls) TearDown()  { c.r.tearDown() }
func (c controls) Terminate() { c.r.terminating.Store(true) }

func (c controls) Primaries() []history.Change                 { return c.r.primaries() }
func (c controls) CreatedByUser() map[types.UID]bool           { return created(c.r.user.Calls()) }
func (c controls) IsPrimary(kind intercept.GroupResource) bool { return c.r.isPrimary(kind) }

func (c controls) Child(child baseline.Child) (history.Change, bool) {
	names := c.r.names(c.r.log.Changes())
	for _, h := range c.r.log.CurrentObjects() {
		if names.Of(h.Object.GetUID()) == child.Name {
			return h, true
		}
	}
	return history.Change{}, false
}

// Pod implements fault.Run.
func (c controls) Pod(p baseline.Pod) (history.Change, bool) {
	pods := c.r.podsByPlace()[p.Name]
	if len(pods) == 0 {
		return history.Change{}, false
	}
	return pods[0], true
}

// AddedFields implements fault.Run.
func (c controls) AddedFields(object baseline.Child) (paths [][]string, canonical []state.Field) {
	return c.pathsOf(object, c.r.addedFields())
}

// MetadataFields implements fault.Run.
func (c controls) MetadataFields(child baseline.Child) (paths [][]string, canonical []state.Field) {
	return c.pathsOf(child, c.r.metadataFields())
}

// pathsOf returns the paths of canonical fields in the current version of an object.
func (c controls) pathsOf(
	object baseline.Child, fields map[string][]state.Field,
) (paths [][]string, canonical []state.Field) {
	live, ok := c.Child(object)
	if !ok {
		return nil, nil
	}
	names := c.r.names(c.r.log.Changes())
	for _, f := range fields[object.Name] {
		if path, _ := names.Find(live.Object, f); path != nil {
			paths = append(paths, path)
			canonical = append(canonical, f)
		}
	}
	return paths, canonical
}

// AwaitStart implements fault.Run.
func (c controls) AwaitStart(done func() bool) {
	c.r.awaitWatches(c.r.procs.count())
	c.r.idle.WaitIdle()
	ctx, cancel := c.r.idle.WithTimeout()
	defer cancel()
	if !done() {
		_ = c.r.idle.WaitOperatorIdle(ctx, c.r.x.QuietPeriod) // a timeout is reported at the end of the step
	}
}

// Await implements fault.Run.
func (c controls) Await(done func() bool) {
	ctx, cancel := c.r.idle.WithTimeout()
	defer cancel()
	c.r.awaitUntil(ctx, done)
}

// AwaitFor implements fault.Run.
func (c controls) AwaitFor(limit time.Duration, done func() bool) bool {
	ctx, cancel := context.WithTimeout(c.r.space.Context(), limit)
	defer cancel()
	c.r.awaitUntil(ctx, done)
	return done()
}

func (c controls) AwaitWrites() { c.Await(c.r.historyShowsWrites) }

func (c controls) CanonicalText(text string) string { return c.r.names(c.r.log.Changes()).Text(text) }

// SentByUser implements fault.Run. An update and a patch are known by what the API server stored. Defaults and the fields of
// the operator are removed from that.
func (c controls) SentByUser(uid types.UID) (object map[string]any, applied bool) {
	first := true
	for _, call := range c.r.user.Calls() {
		if call.UID != string(uid) || !isEffectiveWrite(call) || call.Verb == "delete" {
			continue
		}
		if first || call.Verb == "apply" {
			applied = call.Verb == "apply"
		}
		first = false
		object = nil
		if call.Verb == "patch" || call.Verb == "update" {
			object = c.withoutOperator(call.Received)
		} else if json.Unmarshal(call.Sent, &object) != nil {
			object = nil
		}
		if !setType(object, call.Received) {
			object = nil
		}
	}
	return object, applied
}

// setType gives an object the version and the kind of the response, which are those of the request. The history may have the
// object in another version.
func setType(sent map[string]any, received []byte) bool {
	var t metav1.TypeMeta
	if sent == nil || json.Unmarshal(received, &t) != nil || t.APIVersion == "" || t.Kind == "" {
		return false
	}
	sent["apiVersion"], sent["kind"] = t.APIVersion, t.Kind
	return true
}

// withoutOperator returns a stored object without defaults and the fields of the operator. If it has such fields and is no
// custom resource, it is nil: the operator need not add them to a new object.
func (c controls) withoutOperator(stored []byte) map[string]any {
	u := &unstructured.Unstructured{}
	if json.Unmarshal(stored, &u.Object) != nil {
		return nil
	}
	if c.removeOperatorFields(u) && !readiness.IsCustom(u) {
		return nil
	}
	state.RemoveDefaults(u)
	return u.Object
}

// removeOperatorFields removes the fields that the operator added, and reports whether there are any.
func (c controls) removeOperatorFields(u *unstructured.Unstructured) (found bool) {
	names := c.r.names(c.r.log.Changes())
	every := func(_ history.Change, before *unstructured.Unstructured, _ state.Field) bool { return before != nil }
	for _, f := range c.r.fieldsOfOperator(every)[names.Of(u.GetUID())] {
		if path, _ := names.Find(u, f); path != nil {
			unstructured.RemoveNestedField(u.Object, path...)
			found = true
		}
	}
	return found
}

// WroteEvent implements fault.Run.
func (c controls) WroteEvent(f intercept.Frame) bool { return c.r.isUserEvent(f) }

func (c controls) NoteChange(uid types.UID) {
	c.r.view.mu.Lock()
	defer c.r.view.mu.Unlock()
	c.r.externallyChanged[uid] = true
}
