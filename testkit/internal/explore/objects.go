package explore

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// This file determines the objects of a run, their canonical names, and the parts of them that are compared.

// historyShowsWrites reports whether the history shows every write of the scenario and the operator. On a busy machine it
// may lag by seconds.
func (r *run) historyShowsWrites() bool {
	seen := map[types.UID]string{}
	for _, c := range r.log.Changes() {
		seen[c.Object.GetUID()] = c.Object.GetResourceVersion()
	}
	for _, c := range slices.Concat(r.user.Calls(), r.operator.Calls()) {
		if !r.shouldAppear(c) {
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
func (r *run) shouldAppear(c intercept.Call) bool {
	return c.UID != "" && c.Version != "" && c.Writes() && c.Code < http.StatusMultipleChoices &&
		(c.Subresource == "" || c.Subresource == "status") &&
		c.Namespace == r.space.Namespace && r.x.recorder.Follows(c.Group, c.Resource)
}

// isBehind reports whether the history lags behind the API server. Writes of the last moment need not be in it: an
// operator may write all the time.
func (r *run) isBehind() bool {
	behind, err := r.log.Behind(r.space.Context())
	return err == nil && behind
}

// CatchUp waits until the history shows the current objects. On a busy machine the API server ends the watch of a slow
// client, and the next watch may begin half a minute later.
func (s *Session) CatchUp() error {
	for began := time.Now(); s.run.isBehind(); s.pollDelay() {
		if time.Since(began) > maxTimeouts*s.x.Patience {
			return errBehind
		}
	}
	return s.err()
}

// primaries returns the objects that the scenario created, of kinds that the operator lists or watches. Objects older
// than the operator, such as a Secret, are excluded unless they are custom resources: the operator may need them for its
// cleanup.
func (r *run) primaries() []history.Change {
	made := created(r.user.Calls())
	for _, c := range r.initial {
		if !readiness.IsCustom(c.Object) {
			delete(made, c.Object.GetUID())
		}
	}
	var opened []intercept.Kind
	for number := range r.running() {
		opened = append(opened, r.operator.Opened(number)...)
	}
	if r.baseline != nil {
		opened = append(opened, r.baseline.Opened...)
	}
	var all []history.Change
	for _, c := range r.log.Current() {
		if made[c.Object.GetUID()] && slices.Contains(opened, kindOf(c)) {
			all = append(all, c)
		}
	}
	return all
}

// otherObjects returns the objects that the scenario created and that are not primaries.
func (r *run) otherObjects() []history.Change {
	made := created(r.user.Calls())
	for _, c := range r.primaries() {
		delete(made, c.Object.GetUID())
	}
	return slices.DeleteFunc(r.log.Current(), func(c history.Change) bool { return !made[c.Object.GetUID()] })
}

// isPrimary reports whether the scenario creates objects of the kind.
func (r *run) isPrimary(kind intercept.Kind) bool {
	made := created(r.user.Calls())
	for _, c := range r.log.Changes() {
		if kindOf(c) == kind && made[c.Object.GetUID()] {
			return true
		}
	}
	return len(r.user.Calls()) == 0
}

func kindOf(c history.Change) intercept.Kind {
	return intercept.Kind{Group: c.Resource.Group, Resource: c.Resource.Resource}
}

// created returns the UIDs of objects that the calls created. An apply or a patch may create an object, too.
func created(calls []intercept.Call) map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, c := range calls {
		if c.UID != "" && c.Subresource == "" && c.Code == http.StatusCreated {
			all[types.UID(c.UID)] = true
		}
	}
	return all
}

// written returns the UIDs of objects that the calls wrote.
func written(calls []intercept.Call) map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, c := range calls {
		if c.UID != "" && c.Writes() && c.Reached && c.Code < http.StatusMultipleChoices {
			all[types.UID(c.UID)] = true
		}
	}
	return all
}

func (r *run) names(changes []history.Change) *state.Names {
	return state.NamesOf(r.space.Namespace, changes, r.x.generated)
}

// state returns the state of the namespace.
func (r *run) state() state.State {
	changes := r.log.Changes()
	names := r.names(changes)
	return state.Renumber(state.Snapshot(names, r.log.Current(), r.detail()))
}

// detail returns the parts of an object that are compared: objects that the operator or the scenario wrote, and their
// status if the operator writes the status of the kind.
func (r *run) detail() func(history.Change) state.Detail {
	theirs, ours := written(r.operator.Calls()), written(r.user.Calls())
	status := map[intercept.Kind]bool{}
	for _, c := range r.operator.Calls() {
		if c.Subresource == "status" && c.Writes() {
			status[intercept.KindOf(c.Request)] = true
		}
	}
	if r.baseline != nil {
		status = r.baseline.Status
	}
	return func(c history.Change) state.Detail {
		uid := c.Object.GetUID()
		switch {
		case c.Resource.Resource == "events", !theirs[uid] && !ours[uid]:
			return state.None
		case status[kindOf(c)] && r.plan.SkipCounts:
			return state.ConditionsOnly
		case status[kindOf(c)]:
			return state.Whole
		default:
			return state.Spec
		}
	}
}

// Name returns the name of an object in messages.
func (r *run) name(c history.Change) string {
	return fmt.Sprintf("%s %s", c.Object.GetKind(), c.Object.GetName())
}

// currentChildren returns the existing objects that the operator created, oldest first.
func (r *run) currentChildren() []baseline.Child {
	made := created(r.operator.Calls())
	names := r.names(r.log.Changes())
	var all []baseline.Child
	for _, c := range r.log.Current() {
		if made[c.Object.GetUID()] && c.Resource.Resource != "events" && c.Object.GetDeletionTimestamp() == nil {
			all = append(all, baseline.Child{
				Name: names.Of(c.Object.GetUID()), Kind: kindOf(c),
				Parts: fault.Parts(fault.OwnedFields(c.Object, r.operator.Calls(), r.log.Changes())),
			})
		}
	}
	return all
}
