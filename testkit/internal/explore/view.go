package explore

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
)

// view derives facts about a run from its records: the history, and the requests of the scenario and the operator. It
// determines canonical names, and which objects belong to whom.
type view struct {
	x        *Explorer
	plan     *fault.Plan
	baseline *baseline.Baseline // nil in a baseline run
	space    *space.Space
	log      *history.Log
	user     *intercept.Interceptor // requests of the scenario
	operator *intercept.Interceptor // requests of the operator
	running  func() map[int]Process

	initial               []history.Change // the history before the operator started
	setupCalls            int              // number of requests of the setup
	changesBeforeTeardown []history.Change // the history up to the deletion: after it, all deletions race
	changes               []history.Change // the whole history, set at the end of the run
	terminating           atomic.Bool      // creations are rejected, as in a terminating namespace

	mu             sync.Mutex
	targetCounts   map[string]int    // requests of each target so far
	generatedNames map[string]string // generated name -> name with a placeholder
}

// isForeign reports whether an event is about an object of another run. Runs are concurrent, so cluster-scoped objects of
// others are visible. An object in no namespace is foreign if neither the operator nor the scenario has written it.
func (v *view) isForeign(f intercept.Frame) bool {
	if f.Namespace != "" || f.Name == v.space.Namespace {
		return false
	}
	ours := func(c intercept.Call) bool {
		return c.Name == f.Name && c.Writes() && intercept.KindOf(c.Request) == f.Kind
	}
	return !slices.ContainsFunc(v.operator.Calls(), ours) && !slices.ContainsFunc(v.user.Calls(), ours)
}

func (v *view) snapshot() []history.Change {
	if v.log == nil {
		return nil
	}
	return v.log.Changes()
}

// historyShowsWrites reports whether the history shows every write of the scenario and the operator. On a busy machine it
// may lag by seconds.
func (v *view) historyShowsWrites() bool {
	seen := map[types.UID]string{}
	for _, c := range v.log.Changes() {
		seen[c.Object.GetUID()] = c.Object.GetResourceVersion()
	}
	for _, c := range slices.Concat(v.user.Calls(), v.operator.Calls()) {
		if !v.shouldAppear(c) {
			continue
		}
		switch version, ok := seen[types.UID(c.UID)]; {
		case !ok && c.Code != http.StatusCreated: // older than the history and perhaps unchanged
		case !ok, history.Older(version, c.Version):
			return false
		}
	}
	return true
}

// shouldAppear reports whether a call wrote an object that the history contains.
func (v *view) shouldAppear(c intercept.Call) bool {
	return c.UID != "" && c.Version != "" && c.Writes() && c.Code < http.StatusMultipleChoices &&
		(c.Subresource == "" || c.Subresource == "status") &&
		c.Namespace == v.space.Namespace && v.x.recorder.Follows(c.Group, c.Resource)
}

// isBehind reports whether the history lags behind the API server. Writes of the last moment need not be in it: an
// operator may write all the time.
func (v *view) isBehind() bool {
	behind, err := v.log.Behind(v.space.Context())
	return err == nil && behind
}

// primaries returns the objects that the scenario created, of kinds that the operator lists or watches. Objects older
// than the operator, such as a Secret, are excluded unless they are custom resources: the operator may need them for its
// cleanup.
func (v *view) primaries() []history.Change {
	made := created(v.user.Calls())
	for _, c := range v.initial {
		if !readiness.IsCustom(c.Object) {
			delete(made, c.Object.GetUID())
		}
	}
	var opened []intercept.Kind
	for number := range v.running() {
		opened = append(opened, v.operator.Opened(number)...)
	}
	if v.baseline != nil {
		opened = append(opened, v.baseline.Opened...)
	}
	var all []history.Change
	for _, c := range v.log.Current() {
		if made[c.Object.GetUID()] && slices.Contains(opened, kindOf(c)) {
			all = append(all, c)
		}
	}
	return all
}

// otherObjects returns the objects that the scenario created and that are not primaries.
func (v *view) otherObjects() []history.Change {
	made := created(v.user.Calls())
	for _, c := range v.primaries() {
		delete(made, c.Object.GetUID())
	}
	return slices.DeleteFunc(v.log.Current(), func(c history.Change) bool { return !made[c.Object.GetUID()] })
}

// isPrimary reports whether the scenario creates objects of the kind.
func (v *view) isPrimary(kind intercept.Kind) bool {
	made := created(v.user.Calls())
	for _, c := range v.log.Changes() {
		if kindOf(c) == kind && made[c.Object.GetUID()] {
			return true
		}
	}
	return len(v.user.Calls()) == 0
}

func (v *view) names(changes []history.Change) *state.Names {
	return state.NamesOf(v.space.Namespace, changes, v.x.generated)
}

// state returns the state of the namespace.
func (v *view) state() state.State {
	changes := v.log.Changes()
	names := v.names(changes)
	return state.Renumber(state.Snapshot(names, v.log.Current(), v.detail()))
}

// detail returns the parts of an object that are compared: objects that the operator or the scenario wrote, and their
// status if the operator writes the status of the kind.
func (v *view) detail() func(history.Change) state.Detail {
	theirs, ours := written(v.operator.Calls()), written(v.user.Calls())
	status := map[intercept.Kind]bool{}
	for _, c := range v.operator.Calls() {
		if c.Subresource == "status" && c.Writes() {
			status[intercept.KindOf(c.Request)] = true
		}
	}
	if v.baseline != nil {
		status = v.baseline.Status
	}
	return func(c history.Change) state.Detail {
		uid := c.Object.GetUID()
		switch {
		case c.Resource.Resource == "events", !theirs[uid] && !ours[uid]:
			return state.None
		case status[kindOf(c)] && v.plan.SkipCounts:
			return state.ConditionsOnly
		case status[kindOf(c)]:
			return state.Whole
		default:
			return state.Spec
		}
	}
}

// Name returns the name of an object in messages.
func (v *view) name(c history.Change) string {
	return fmt.Sprintf("%s %s", c.Object.GetKind(), c.Object.GetName())
}

// currentChildren returns the existing objects that the operator created, oldest first.
func (v *view) currentChildren() []baseline.Child {
	made := created(v.operator.Calls())
	names := v.names(v.log.Changes())
	var all []baseline.Child
	for _, c := range v.log.Current() {
		if made[c.Object.GetUID()] && c.Resource.Resource != "events" && c.Object.GetDeletionTimestamp() == nil {
			all = append(all, baseline.Child{
				Name: names.Of(c.Object.GetUID()), Kind: kindOf(c),
				Parts: fault.Parts(fault.OwnedFields(c.Object, v.operator.Calls(), v.log.Changes())),
			})
		}
	}
	return all
}

// UserObjects returns the canonical names of objects that the scenario created or changed.
func (v *view) userObjects() map[string]bool {
	names, all := v.names(v.log.Changes()), map[string]bool{}
	calls := v.user.Calls()
	for uid := range written(calls) {
		all[names.Of(uid)] = true
	}
	return all
}

// targets returns the operator's requests in the order of sending.
func (v *view) targets() []baseline.Target {
	effective := v.effective()
	count := map[string]int{}
	var all []baseline.Target
	for i, c := range v.operator.Calls() {
		// A baseline run has a second process after the final restart. Its requests have no counterpart in other runs, except
		// for those of the deletion.
		restarted := c.Process > 1 && c.Step <= len(v.x.Steps)
		if c.Verb == "watch" || intercept.IsLease(c.Request) || c.Resource == "" || restarted {
			continue
		}
		t := v.targetOf(&c)
		count[t.Group()]++
		t.Number = count[t.Group()]
		t.Step = c.Step
		t.Effective = effective[i]
		t.Creates = t.Effective && c.Code == http.StatusCreated
		all = append(all, t)
	}
	return all
}

// targetOf returns the target of a request, without its number.
func (v *view) targetOf(c *intercept.Call) baseline.Target {
	return baseline.Target{
		Verb: c.Verb, Kind: intercept.KindOf(c.Request), Subresource: c.Subresource, Object: v.groupOf(c), Writes: c.Writes(),
		Versioned: isVersioned(c),
	}
}

// groupOf returns the canonical group of the object's name, as far as it is known when the request is sent.
func (v *view) groupOf(c *intercept.Call) string {
	m := metadataOf(c.Sent)
	name := c.Name
	v.mu.Lock()
	if m.GenerateName != "" && m.Name == "" {
		if name != "" {
			v.generatedNames[name] = m.GenerateName + "~"
		}
		name = m.GenerateName + "~"
	} else if made, ok := v.generatedNames[name]; ok {
		name = made
	}
	v.mu.Unlock()
	if prefix, ok := v.x.generated.Prefix(intercept.KindOf(c.Request).String(), name); ok {
		name = prefix + "~"
	}
	return v.withoutGenerated(name, m.OwnerReferences)
}

// withoutGenerated returns a name without the namespace and the UIDs of objects, which differ between runs. An owner may
// be newer than the history.
func (v *view) withoutGenerated(name string, owners []metav1.OwnerReference) string {
	if len(name) > 8 { // length of the shortest form of a UID
		for _, o := range owners {
			name = state.ReplaceUID(name, o.UID, "$UID")
		}
		for _, c := range v.log.Changes() {
			name = state.ReplaceUID(name, c.Object.GetUID(), "$UID")
		}
	}
	return strings.ReplaceAll(name, v.space.Namespace, "$NAMESPACE")
}

// Effective returns the indices of the calls that changed something: the object has a version that it did not have
// before.
func (v *view) effective() map[int]bool {
	known := map[types.UID]map[string]bool{}
	all := map[int]bool{}
	// versions written by others, and earlier ones
	calls := v.operator.Calls()
	order := make([]int, 0, len(calls))
	for i := range calls {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(calls[a].Ended - calls[b].Ended) })
	ours := map[string]bool{}
	for _, c := range calls {
		ours[c.UID+"@"+c.Version] = true
	}
	for _, c := range v.log.Changes() {
		uid, version := c.Object.GetUID(), c.Object.GetResourceVersion()
		if !ours[string(uid)+"@"+version] {
			if known[uid] == nil {
				known[uid] = map[string]bool{}
			}
			known[uid][version] = true
		}
	}
	for _, i := range order {
		c := calls[i]
		if !c.Writes() || !c.Reached || c.Code >= http.StatusMultipleChoices {
			continue
		}
		if c.Verb == "delete" || c.Verb == "deletecollection" {
			all[i] = true
			continue
		}
		uid := types.UID(c.UID)
		if c.UID == "" || !known[uid][c.Version] {
			all[i] = true
		}
		if known[uid] == nil {
			known[uid] = map[string]bool{}
		}
		known[uid][c.Version] = true
	}
	return all
}

// SecretChanges counts the changes of values in Secrets. The count of a Secret ends with its deletion.
func (v *view) secretChanges() map[string]int {
	names, times, last := v.names(v.changes), map[string]int{}, map[types.UID]map[string]any{}
	for _, c := range v.changes {
		if kindOf(c).String() != "secrets" {
			continue
		}
		data, _, _ := unstructured.NestedMap(c.Object.Object, "data")
		uid := c.Object.GetUID()
		for key, v := range data {
			if before, ok := last[uid][key]; ok && before != v {
				times[names.Of(uid)+".data."+key]++
			}
		}
		last[uid] = data
	}
	return times
}

// Counts returns the creations and deletions of objects that the operator created.
func (v *view) counts() state.Counts {
	made := created(v.operator.Calls())
	return state.CountOf(v.names(v.changesBeforeTeardown), v.changesBeforeTeardown, func(c history.Change) bool {
		return made[c.Object.GetUID()] && c.Resource.Resource != "events" && c.Type != watch.Modified
	})
}

// Restored returns the canonical names of objects that existed before the operator started, that the scenario never
// changed, and that have their initial content at the end. The operator leaves no trace in them. Custom resources are
// excluded.
func (v *view) restored(end state.State) map[string]bool {
	all := map[string]bool{}
	names := v.names(v.log.Changes())
	last := map[types.UID]history.Change{}
	for _, c := range v.initial {
		last[c.Object.GetUID()] = c
	}
	begin := state.Renumber(state.Snapshot(names, slices.Collect(maps.Values(last)), v.detail()))
	for uid, c := range last {
		name := names.Of(uid)
		all[name] = !readiness.IsCustom(c.Object) && begin[name] != nil && reflect.DeepEqual(begin[name], end[name])
	}
	for uid := range written(v.user.Calls()[v.setupCalls:]) {
		delete(all, names.Of(uid))
	}
	return all
}

// writeEffect returns the change that a write made to its object, in a line of its own, or "" if the history does not
// show it.
func (v *view) writeEffect(c intercept.Call, began time.Time) string {
	changes := v.log.Changes()
	for i, change := range timeline.Changes(changes, began) {
		if u := changes[i].Object; string(u.GetUID()) == c.UID && u.GetResourceVersion() == c.Version {
			return "\n    " + change.Text
		}
	}
	return ""
}

// lastWrites lists the operator's last writes.
func (v *view) lastWrites(n int, began time.Time) string {
	var writes []int
	calls, effective := v.operator.Calls(), v.effective()
	for i, c := range calls {
		if c.Writes() && !intercept.IsLease(c.Request) {
			writes = append(writes, i)
		}
	}
	var lines []string
	for _, i := range writes[max(0, len(writes)-n):] {
		if effective[i] {
			lines = append(lines, calls[i].String()+v.writeEffect(calls[i], began))
		} else {
			lines = append(lines, calls[i].String()+", which changed nothing")
		}
	}
	return strings.Join(lines, "\n")
}

// residue returns existing objects that the operator created and that must be deleted with the custom resources.
func (v *view) residue() []history.Change {
	made := created(v.operator.Calls())
	var left []history.Change
	for _, c := range v.log.Current() {
		if made[c.Object.GetUID()] && c.Resource.Resource != "events" && !slices.Contains(v.x.Keeps, c.Resource.Resource) {
			left = append(left, c)
		}
	}
	return left
}

// statusKinds returns the kinds whose status the operator writes.
func (v *view) statusKinds() map[intercept.Kind]bool {
	kinds := oracle.StatusKinds(v.operator.Calls())
	if v.baseline != nil {
		maps.Copy(kinds, v.baseline.Status)
	}
	return kinds
}

// statusKind reports whether the operator writes the status of this kind.
func (v *view) statusKind(kind intercept.Kind) bool { return v.statusKinds()[kind] }

// await waits until the history satisfies done. The limit is the timeout of the run.
func (v *view) await(done func() bool) {
	for {
		changed := v.log.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-v.space.Context().Done():
			return
		}
	}
}

// writerOf returns the operator's request that led to a state, or "".
func (v *view) writerOf(c history.Change) string {
	for _, call := range v.operator.Calls() {
		if call.UID == string(c.Object.GetUID()) && call.Version == c.Object.GetResourceVersion() {
			return call.String()
		}
	}
	return ""
}

// isBlockedByTermination reports whether a request would create an object in the terminating namespace.
func (v *view) isBlockedByTermination(ctx context.Context, c *intercept.Call) bool {
	if !v.terminating.Load() || c.Namespace != v.space.Namespace || c.Subresource != "" {
		return false
	}
	if c.Verb != "patch" {
		return c.Verb == "create"
	}
	gvk, err := v.space.Client.RESTMapper().KindFor(schema.GroupVersionResource{Group: c.Group, Resource: c.Resource})
	if err != nil {
		return false
	}
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(gvk)
	return apierrors.IsNotFound(v.space.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Name}, there))
}

// rewroteUserSpec reports whether the operator has changed the desired state of a user's object.
func (v *view) rewroteUserSpec() bool {
	theirs, wrote := created(v.user.Calls()), map[string]bool{}
	for _, c := range v.operator.Calls() {
		if c.Subresource == "" && c.Writes() && c.Verb != "delete" {
			wrote[c.UID+"@"+c.Version] = true
		}
	}
	last := map[types.UID]any{}
	for _, c := range v.changes {
		uid, asks := c.Object.GetUID(), desiredContent(c.Object)
		if was, known := last[uid]; known && theirs[uid] && wrote[string(uid)+"@"+c.Object.GetResourceVersion()] &&
			!reflect.DeepEqual(was, asks) {
			return true
		}
		last[uid] = asks
	}
	return false
}

func (v *view) isStale(c intercept.Call) bool { return oracle.IsStale(c) }

// countTarget returns the number of the request in its group.
func (v *view) countTarget(t baseline.Target) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.targetCounts[t.Group()]++
	return v.targetCounts[t.Group()]
}
