package explore

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
)

// This file evaluates requests: their identity across runs, and their effects on objects.

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

// effective returns the indices of the calls that changed something: the object has a version that it did not have
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
		if !c.IsWrite() || !c.Reached || c.Code >= http.StatusMultipleChoices {
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

// counts returns the creations and deletions of objects that the operator created, except for garbage from the start.
func (v *view) counts() state.Counts {
	made, garbage := created(v.operator.Calls()), bornGarbage(v.changesBeforeTeardown)
	return state.CountOf(v.names(v.changesBeforeTeardown), v.counted(v.changesBeforeTeardown), func(c history.Change) bool {
		uid := c.Object.GetUID()
		return made[uid] && !garbage[uid] && c.Resource.Resource != "events" && c.Type != watch.Modified
	})
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
		if c.IsWrite() && !intercept.IsLease(c.Request) {
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

// writerOf returns the operator's request that led to a state, or "".
func (v *view) writerOf(c history.Change) string {
	for _, call := range v.operator.Calls() {
		if call.UID == string(c.Object.GetUID()) && call.Version == c.Object.GetResourceVersion() {
			return call.String()
		}
	}
	return ""
}

// rewroteUserSpec reports whether the operator has changed the desired state of a user's object.
func (v *view) rewroteUserSpec() bool {
	theirs, wrote := created(v.user.Calls()), map[string]bool{}
	for _, c := range v.operator.Calls() {
		if c.Subresource == "" && c.IsWrite() && c.Verb != "delete" {
			wrote[c.UID+"@"+c.Version] = true
		}
	}
	last := map[types.UID]any{}
	for _, c := range v.changes {
		uid, asks := c.Object.GetUID(), state.DesiredContent(c.Object)
		if was, known := last[uid]; known && theirs[uid] && wrote[string(uid)+"@"+c.Object.GetResourceVersion()] &&
			!reflect.DeepEqual(was, asks) {
			return true
		}
		last[uid] = asks
	}
	return false
}

func (v *view) isStale(c intercept.Call) bool { return oracle.IsStale(c) }

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
	return c.UID != "" && c.Version != "" && c.IsWrite() && c.Code < http.StatusMultipleChoices &&
		(c.Subresource == "" || c.Subresource == "status") &&
		v.isOwn(c)
}

// isBehind reports whether the history lags behind the API server. Writes of the last moment need not be in it: an
// operator may write all the time.
func (v *view) isBehind() bool {
	behind, err := v.log.IsBehind(v.space.Context())
	return err == nil && behind
}

// await waits until the history satisfies done. The limit is the timeout of the run.
func (v *view) await(done func() bool) { v.awaitUntil(v.space.Context(), done) }

// awaitUntil is await that ends with a context, too.
func (v *view) awaitUntil(ctx context.Context, done func() bool) {
	for {
		changed := v.log.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// statusKinds returns the kinds whose status the operator writes.
func (v *view) statusKinds() map[intercept.GroupResource]bool {
	kinds := oracle.StatusKinds(v.operator.Calls())
	if v.baseline != nil {
		maps.Copy(kinds, v.baseline.Status)
	}
	return kinds
}

// writesStatusOf reports whether the operator writes the status of this kind.
func (v *view) writesStatusOf(kind intercept.GroupResource) bool { return v.statusKinds()[kind] }

// isVersioned reports whether the request contains a resourceVersion (optimistic concurrency).
func isVersioned(c *intercept.Call) bool {
	return c.IsWrite() && c.Verb != "create" && metadataOf(c.Sent).ResourceVersion != ""
}
