package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// failuresOf responds to the selected requests with a failure.
func failuresOf(status metav1.Status, selected func(*http.Request) bool) *faults {
	return &faults{before: func(req *http.Request) (*http.Response, error) {
		if selected(req) {
			return response(req, status), nil
		}
		return nil, nil // no response: the request goes to the server
	}}
}

// toChild selects requests with a verb for ConfigMap child.
func toChild(method, contentType string) func(*http.Request) bool {
	return func(req *http.Request) bool {
		return req.Method == method && strings.HasSuffix(req.URL.Path, "/configmaps/child") &&
			strings.HasPrefix(req.Header.Get("Content-Type"), contentType)
	}
}

var (
	forbidden = metav1.Status{
		Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "the answer is no",
	}
	serverFailure = metav1.Status{
		Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "the answer is no",
	}
	unknownKind = metav1.Status{
		Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: "the answer is no",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse}}},
	}
	outdated = metav1.Status{
		Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "the answer is no",
	}
)

const (
	mergePatchType = "application/merge-patch+json"
	applyPatchType = "application/apply-patch"
)

// If a new spec needs an object of another user that the operator cannot read, the status reports it at once.
func TestMissingGetAfterSpecChangeIsReported(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("the operator lacks the permission to get its children", "forbidden"))
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, p.Object.Spec.Text))
		return nil
	})
	op.Owns = []client.Object{&corev1.ConfigMap{}}
	start(k, op, withoutGet(k))
	k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "taken"}, Data: map[string]string{"text": "another user's"}})
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	states := collectStates(t, k)
	k.Update(s, func() { s.Spec.Text = "taken" })
	k.Eventually(s, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "ConfigMapRejected"))
	_, _, message := condition(s, conditions.Ready)
	for _, want := range []string{"ConfigMap taken", `cannot get resource "configmaps"`} {
		if !strings.Contains(message, want) {
			t.Errorf("the message should contain %q: %s", want, message)
		}
	}
	if s.Status.ObservedGeneration != s.Generation {
		t.Errorf("observed generation %d of %d", s.Status.ObservedGeneration, s.Generation)
	}
	neverOutdated(t, states(s.ResourceVersion))
}

// afterFirst selects all requests that the selector selects, except for the first one.
func afterFirst(selected func(*http.Request) bool) func(*http.Request) bool {
	var count atomic.Int64
	return func(req *http.Request) bool { return selected(req) && count.Add(1) > 1 }
}

// neverOutdated checks that no state up to the present one has the condition for stale reads.
func neverOutdated(t *testing.T, states []*site.Site) {
	t.Helper()
	for _, state := range states {
		if _, reason, _ := condition(state, conditions.Reconciling); reason == "Outdated" {
			t.Error("the failure was reported as outdated first")
		}
	}
}

// Each request that follows a conflict may fail. The status reports it at once with the message of the API server, and
// not after the time for stale reads.
func TestFailuresAfterConflict(t *testing.T) {
	t.Parallel()
	ownerCheck := func(req *http.Request) bool {
		return req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/sites") &&
			strings.Contains(req.URL.RawQuery, "fieldSelector=metadata.name") && !req.URL.Query().Has("watch")
	}
	get, secondApply := toChild(http.MethodGet, ""), toChild(http.MethodPatch, applyPatchType)
	adopt := []sdk.ApplyOption{sdk.Adopt()}
	for name, c := range map[string]struct {
		options  []sdk.ApplyOption
		status   metav1.Status
		selected func(*http.Request) bool
		reason   string
		message  string
	}{
		"get is forbidden":       {nil, forbidden, get, "ConfigMapRejected", "the answer is no"},
		"get finds no kind":      {nil, unknownKind, get, "KindNotInstalled", "install its CRD"},
		"get fails":              {nil, serverFailure, get, "Retrying", "the answer is no"},
		"list is forbidden":      {adopt, forbidden, ownerCheck, "Retrying", "the answer is no"},
		"adoption is forbidden":  {adopt, forbidden, afterFirst(secondApply), "ConfigMapRejected", "the answer is no"},
		"adoption finds no kind": {adopt, unknownKind, afterFirst(secondApply), "KindNotInstalled", "install its CRD"},
		"new owner is forbidden": {
			[]sdk.ApplyOption{sdk.Adopt(), sdk.CreateOnly()}, forbidden, afterFirst(secondApply), "ConfigMapRejected", "no",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t, testkit.WithoutOracles("the test forbids requests", "forbidden"))
			start(k, operator(func(_ context.Context, p *pass) error {
				sdk.Apply(p, configMap(p.Object, "child"), c.options...)
				return nil
			}), failuresOf(c.status, c.selected).config(k))
			k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}, Data: map[string]string{"text": "mine"}})
			states := collectStates(t, k)
			s := newSite("a")
			k.Apply(s)
			k.Eventually(s, failedWith(c.reason, c.message))
			neverOutdated(t, states(s.ResourceVersion))
		})
	}
}

// failedWith checks for a condition Reconciling or Stalled with this reason and a part of the message.
func failedWith(reason, part string) testkit.Check {
	return testkit.Match("failure "+reason+": "+part, func(s *site.Site) bool {
		for _, t := range []string{conditions.Reconciling, conditions.Stalled, conditions.Deleting} {
			if status, got, message := condition(s, t); status == metav1.ConditionTrue && got == reason {
				return strings.Contains(message, part) || t == conditions.Stalled && message == ""
			}
		}
		return false
	})
}

// Writes of a child that is known already may fail in the same way.
func TestFailedRepairsAreReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		option sdk.ApplyOption
		change string
	}{
		"tracking finalizer": {sdk.HoldUntil(false), `{"metadata":{"finalizers":null}}`},
		"foreign content": {
			sdk.RemoveForeign(func(o *corev1.ConfigMap) []string {
				if o.Data["foreign"] == "" {
					return nil
				}
				delete(o.Data, "foreign")
				return []string{"data.foreign"}
			}), `{"data":{"foreign":"yes"}}`,
		},
	} {
		for kind, status := range map[string]metav1.Status{"forbidden": forbidden, "kind": unknownKind} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				k := testkit.New(t, testkit.WithoutOracles("the test forbids requests", "forbidden"))
				start(k, operator(func(_ context.Context, p *pass) error {
					sdk.Apply(p, configMap(p.Object, "child"), c.option)
					return nil
				}), failuresOf(status, toChild(http.MethodPatch, mergePatchType)).config(k))
				s := newSite("a")
				k.Apply(s)
				k.Eventually(s, testkit.Ready())
				states := collectStates(t, k)
				mustPatch(t, k, named(&corev1.ConfigMap{}, "child"), types.MergePatchType, c.change)
				if kind == "forbidden" {
					k.Eventually(s, failedWith("ConfigMapRejected", "the answer is no"))
				} else {
					k.Eventually(s, failedWith("KindNotInstalled", "install its CRD"))
				}
				neverOutdated(t, states(s.ResourceVersion))
				k.Delete(s)
			})
		}
	}
}

// The status is stored before children are pruned. A failed deletion is reported by the next reconcile, until it succeeds.
func TestFailedPruningIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status metav1.Status
		method string
		reason string
		orphan bool
	}{
		"deletion is forbidden": {forbidden, http.MethodDelete, "Retrying", false},
		"deletion fails":        {serverFailure, http.MethodDelete, "Retrying", false},
		"orphaning conflicts":   {outdated, http.MethodPatch, "Retrying", true}, // for longer than stale reads are tolerated
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t, testkit.WithoutOracles("the test forbids requests", "forbidden"))
			var failing atomic.Bool
			failing.Store(true)
			op := operator(func(_ context.Context, p *pass) error {
				if p.Object.Spec.Extra {
					sdk.Apply(p, configMap(p.Object, "child"))
				}
				return nil
			})
			op.Orphan = func(client.Object) bool { return c.orphan }
			running := start(k, op, failuresOf(c.status, func(req *http.Request) bool {
				return failing.Load() && toChild(c.method, "")(req) && !isApply(req, "configmaps")
			}).config(k))
			s := newSite("a")
			s.Spec.Extra = true
			k.Apply(s)
			k.Eventually(s, testkit.Ready())
			k.Update(s, func() { s.Spec.Extra = false })
			k.Eventually(s, failedWith(c.reason, "the answer is no"))
			failing.Store(false)
			k.Eventually(s, testkit.Ready(), testkit.Condition(conditions.Reconciling, metav1.ConditionFalse))
			if !c.orphan {
				k.Eventually(named(&corev1.ConfigMap{}, "child"), testkit.Gone())
			}
			requireUnchanged(t, k, running, s)
		})
	}
}

// A clean-up whose passes stay stale is reported like one that fails.
func TestStaleCleanUpIsReported(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var failing atomic.Bool
	failing.Store(true)
	op := operator(oneChild)
	op.Finalize = func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, "child"))
		return nil
	}
	start(k, op, failuresOf(outdated, func(req *http.Request) bool {
		return failing.Load() && toChild(http.MethodPatch, applyPatchType)(req)
	}).config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	k.Delete(s)
	k.Eventually(s, failedWith("CleanUpFailing", "out of date again and again"))
	failing.Store(false)
	k.Eventually(s, testkit.Gone())
}

// A child whose writes stay stale does not hide the rejection of another one.
func TestRejectionBesideStaleChild(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("the test forbids requests", "forbidden"))
	start(k, operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, "other"))
		sdk.Apply(p, configMap(p.Object, "child"))
		return nil
	}), (&faults{before: func(req *http.Request) (*http.Response, error) {
		switch {
		case toChild(http.MethodPatch, applyPatchType)(req):
			return response(req, outdated), nil
		case isApply(req, "configmaps"):
			return response(req, forbidden), nil
		}
		return nil, nil //nolint:nilnil // no response: the request goes to the server
	}}).config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, failedWith("Outdated", "ConfigMap other is refused: the answer is no"))
}
