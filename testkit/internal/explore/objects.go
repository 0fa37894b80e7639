package explore

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// This file is about what there is: whose it is, what it is called in every run, and what of it is compared.

// historyShowsWrites reports whether the history shows everything that the scenario and the operator have written. On a busy machine
// it may be seconds behind.
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
		case !ok && c.Code != http.StatusCreated: // it was there before the history began, and may be as it was
		case !ok, history.Older(version, c.Version):
			return false
		}
	}
	return true
}

// shouldAppear reports whether a call wrote an object that the history tells of.
func (r *run) shouldAppear(c intercept.Call) bool {
	return c.UID != "" && c.Version != "" && c.Writes() && c.Code < http.StatusMultipleChoices &&
		(c.Subresource == "" || c.Subresource == "status") &&
		c.Namespace == r.k.Namespace && r.x.recorder.Follows(c.Group, c.Resource)
}

// isBehind reports whether the history does not show what there is. What was written a moment ago need not be in it: an
// operator may write all the time.
func (r *run) isBehind() bool {
	behind, err := r.log.Behind(r.k.Context())
	return err == nil && behind
}

// CatchUp waits until the history shows all that there is. On a busy machine the API server ends a watch whose client is too
// slow, and its next one may begin half a minute later.
func (s *Session) CatchUp() error {
	for began := time.Now(); s.run.isBehind(); s.pollDelay() {
		if time.Since(began) > maxTimeouts*s.x.Patience {
			return errBehind
		}
	}
	return s.err()
}

// primaries are the objects that the scenario made, of kinds that the operator asked for. What was there before the operator
// started, such as a Secret, stays for its clean-up, unless it is a custom resource.
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
		opened = append(opened, r.baseline.opened...)
	}
	var all []history.Change
	for _, c := range r.log.Current() {
		if made[c.Object.GetUID()] && slices.Contains(opened, kindOf(c)) {
			all = append(all, c)
		}
	}
	return all
}

// otherObjects are the objects that the scenario made and that are not primaries.
func (r *run) otherObjects() []history.Change {
	made := created(r.user.Calls())
	for _, c := range r.primaries() {
		delete(made, c.Object.GetUID())
	}
	return slices.DeleteFunc(r.log.Current(), func(c history.Change) bool { return !made[c.Object.GetUID()] })
}

func kindOf(c history.Change) intercept.Kind {
	return intercept.Kind{Group: c.Resource.Group, Resource: c.Resource.Resource}
}

// created returns the objects that the calls created or, by an apply or a patch, may have created.
func created(calls []intercept.Call) map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, c := range calls {
		if c.UID != "" && c.Subresource == "" && c.Code == http.StatusCreated {
			all[types.UID(c.UID)] = true
		}
	}
	return all
}

// written returns the objects that the calls wrote.
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
	return state.NamesOf(r.k.Namespace, changes, r.x.generated)
}

// state is what the namespace amounts to now.
func (r *run) state() state.State {
	changes := r.log.Changes()
	names := r.names(changes)
	return state.Renumber(state.Snapshot(names, r.log.Current(), r.detail()))
}

// detail says what of an object is compared: that which the operator or the scenario wrote, and its status if the operator
// writes that of its kind.
func (r *run) detail() func(history.Change) state.Detail {
	theirs, ours := written(r.operator.Calls()), written(r.user.Calls())
	status := map[intercept.Kind]bool{}
	for _, c := range r.operator.Calls() {
		if c.Subresource == "status" && c.Writes() {
			status[intercept.KindOf(c.Request)] = true
		}
	}
	if r.baseline != nil {
		status = r.baseline.status
	}
	return func(c history.Change) state.Detail {
		uid := c.Object.GetUID()
		switch {
		case c.Resource.Resource == "events", !theirs[uid] && !ours[uid]:
			return state.None
		case status[kindOf(c)] && r.plan.skipCounts:
			return state.ConditionsOnly
		case status[kindOf(c)]:
			return state.Whole
		default:
			return state.Spec
		}
	}
}

// name is how a reader knows an object.
func (r *run) name(c history.Change) string {
	return fmt.Sprintf("%s %s", c.Object.GetKind(), c.Object.GetName())
}

// currentChildren are the objects that the operator made and that exist, the oldest first.
func (r *run) currentChildren() []child {
	made := created(r.operator.Calls())
	names := r.names(r.log.Changes())
	var all []child
	for _, c := range r.log.Current() {
		if made[c.Object.GetUID()] && c.Resource.Resource != "events" && c.Object.GetDeletionTimestamp() == nil {
			all = append(all, child{names.Of(c.Object.GetUID()), kindOf(c), parts(r.ownedFields(c.Object))})
		}
	}
	return all
}
