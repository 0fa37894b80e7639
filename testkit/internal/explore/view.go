package explore

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
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
	foreign  foreignObjects

	externals *externals

	initial               []history.Change // the history before the operator started
	setupCalls            int              // number of requests of the setup
	changesBeforeTeardown []history.Change // the history up to the deletion: after it, all deletions race
	changes               []history.Change // the whole history, set at the end of the run
	triggered             atomic.Bool      // a trigger has changed the cluster
	uncounted             []span           // the changes that triggers caused
	terminating           atomic.Bool      // creations are rejected, as in a terminating namespace

	mu             sync.Mutex
	targetCounts   map[string]int     // requests of each target so far
	generatedNames map[string]string  // generated name -> name with a placeholder
	changedInStep  map[types.UID]bool // objects that a step of the scenario has written
}

// isForeign reports whether an event is about an object of another run. Runs are concurrent, so cluster-scoped objects of
// others are visible. An object in no namespace is foreign if neither the operator nor the scenario has written it.
func (v *view) isForeign(f intercept.Frame) bool {
	if f.Namespace != "" || f.Name == v.space.Namespace {
		return false
	}
	ours := func(c intercept.Call) bool {
		return c.Name == f.Name && c.IsWrite() && intercept.GroupResourceOf(c.Request) == f.Kind
	}
	return !slices.ContainsFunc(v.operator.Calls(), ours) && !slices.ContainsFunc(v.user.Calls(), ours)
}

// skipsStatus reports whether only the conditions of a status are compared: a fault or a trigger changed the cluster itself.
func (v *view) skipsStatus() bool { return v.plan.SkipCounts || v.triggered.Load() }

func (v *view) snapshot() []history.Change {
	if v.log == nil {
		return nil
	}
	return v.log.Changes()
}

// primaries returns the objects that the scenario created, of kinds that the operator lists or watches. Objects older
// than the operator, such as a Secret, and objects that replaced them are excluded unless they are custom resources: the
// operator may need them for its cleanup.
func (v *view) primaries() []history.Change {
	made, opened := created(v.user.Calls()), v.opened()
	isInitial := func(c history.Change) bool {
		return slices.ContainsFunc(v.initial, func(i history.Change) bool {
			return !readiness.IsCustom(i.Object) && groupResourceOf(i) == groupResourceOf(c) &&
				client.ObjectKeyFromObject(i.Object) == client.ObjectKeyFromObject(c.Object)
		})
	}
	var all []history.Change
	for _, c := range v.log.CurrentObjects() {
		if made[c.Object.GetUID()] && slices.Contains(opened, groupResourceOf(c)) && !isInitial(c) {
			all = append(all, c)
		}
	}
	return all
}

// opened returns the kinds that the operator lists or watches.
func (v *view) opened() []intercept.GroupResource {
	var opened []intercept.GroupResource
	for number := range v.running() {
		opened = append(opened, v.operator.Opened(number)...)
	}
	if v.baseline != nil {
		opened = append(opened, v.baseline.Opened...)
	}
	return opened
}

// otherObjects returns the objects that the scenario created and that are not primaries.
func (v *view) otherObjects() []history.Change {
	made := created(v.user.Calls())
	for _, c := range v.primaries() {
		delete(made, c.Object.GetUID())
	}
	return slices.DeleteFunc(v.log.CurrentObjects(), func(c history.Change) bool { return !made[c.Object.GetUID()] })
}

// isPrimary reports whether the scenario creates objects of the kind.
func (v *view) isPrimary(kind intercept.GroupResource) bool {
	made := created(v.user.Calls())
	for _, c := range v.log.Changes() {
		if groupResourceOf(c) == kind && made[c.Object.GetUID()] {
			return true
		}
	}
	return len(v.user.Calls()) == 0
}

// currentChildren returns the existing objects that the operator created, oldest first.
func (v *view) currentChildren() []baseline.Child {
	made := created(v.operator.Calls())
	names := v.names(v.log.Changes())
	var all []baseline.Child
	for _, c := range v.log.CurrentObjects() {
		if made[c.Object.GetUID()] && c.Resource.Resource != "events" && c.Object.GetDeletionTimestamp() == nil {
			parts := fault.Parts(fault.OwnedFields(c.Object, v.operator.Calls(), v.log.Changes()))
			for i, part := range parts {
				parts[i] = names.Text(part)
			}
			all = append(all, baseline.Child{
				Name: names.Of(c.Object.GetUID()), Kind: groupResourceOf(c), Content: v.contentOf(c.Object), ManagedParts: parts,
			})
		}
	}
	return all
}

// userObjects returns the canonical names of objects that the scenario created or changed.
func (v *view) userObjects() map[string]bool {
	names, all := v.names(v.log.Changes()), map[string]bool{}
	calls := v.user.Calls()
	for uid := range written(calls) {
		all[names.Of(uid)] = true
	}
	return all
}

// restored returns the canonical names of objects that existed before the operator started, that the scenario never
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

// residue returns existing objects that the operator created and that must be deleted with the custom resources.
func (v *view) residue() []history.Change {
	made := created(v.operator.Calls())
	var left []history.Change
	for _, c := range v.log.CurrentObjects() {
		if made[c.Object.GetUID()] && c.Resource.Resource != "events" && !slices.Contains(v.x.AllowResidue, c.Resource.Resource) {
			left = append(left, c)
		}
	}
	return left
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
