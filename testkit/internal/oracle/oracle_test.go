package oracle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// names returns the oracles of the violations.
func names(found []report.Violation) []string {
	var all []string
	for _, v := range found {
		all = append(all, v.Oracle)
	}
	return all
}

func TestCalls(t *testing.T) {
	t.Parallel()
	create := recorder.Request{Verb: "create", Resource: "pods"}
	update := recorder.Request{Verb: "update", Resource: "services"}
	apply := recorder.Request{Verb: "apply", Resource: "services"}
	lease := recorder.Request{Verb: "update", Group: "coordination.k8s.io", Resource: "leases"}
	tests := map[string]struct {
		reason string
		call   intercept.Call
		code   int
		want   []string
	}{
		"Created":   {"nothing is wrong", intercept.Call{Request: create, Reached: true}, 201, nil},
		"NotFound":  {"a regular response", intercept.Call{Request: create, Reached: true}, 404, nil},
		"Conflict":  {"the operator retries", intercept.Call{Request: create, Reached: true}, 409, nil},
		"Gone":      {"the operator lists again", intercept.Call{Request: create, Reached: true}, 410, nil},
		"TooMany":   {"the operator retries later", intercept.Call{Request: create, Reached: true}, 429, nil},
		"Forbidden": {"a missing permission", intercept.Call{Request: create, Reached: true}, 403, []string{oracle.Forbidden}},
		"ForbiddenProbe": {
			"any response answers it",
			intercept.Call{Request: recorder.Request{Verb: "head"}, Reached: true},
			403, nil,
		},
		"NamespaceGone": {
			"the namespace is terminating",
			intercept.Call{Request: create, Reached: true, Causes: []string{"NamespaceTerminating"}},
			403, nil,
		},
		"Invalid": {"a retry cannot succeed", intercept.Call{Request: create, Reached: true}, 422, []string{oracle.Refused}},
		"Stale": {
			"the request was computed from a deleted object",
			intercept.Call{
				Request: create, Reached: true,
				Message: `Pod "a" is invalid: metadata.uid: Invalid value: "u": field is immutable`,
			},
			422, nil,
		},
		"Tested": {
			"a test of the JSON patch fails",
			intercept.Call{
				Request: recorder.Request{Verb: "patch", Resource: "services"}, Reached: true,
				Sent:    []byte(`[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"remove","path":"/data/a"}]`),
				Message: "the server rejected our request due to an error in our request",
			},
			422, nil,
		},
		"TestedAndInvalid": {
			"the tests of the JSON patch pass, and its result is invalid",
			intercept.Call{
				Request: recorder.Request{Verb: "patch", Resource: "services"}, Reached: true,
				Sent:    []byte(`[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"remove","path":"/spec/a"}]`),
				Message: `Service "a" is invalid: spec.a: Required value`,
			},
			422,
			[]string{oracle.Refused},
		},
		"Untested": {
			"a JSON patch does not fit",
			intercept.Call{
				Request: recorder.Request{Verb: "patch", Resource: "services"}, Reached: true,
				Sent:    []byte(`[{"op":"remove","path":"/data/a"}]`),
				Message: "the server rejected our request due to an error in our request",
			},
			422,
			[]string{oracle.Refused},
		},
		"Immutable": {
			"every update contains the UID",
			intercept.Call{
				Request: update, Reached: true, Sent: []byte(`{"metadata":{"uid":"u"}}`),
				Message: `Service "a" is invalid: spec.clusterIP: Invalid value: "1": field is immutable`,
			},
			422,
			[]string{oracle.Refused},
		},
		"Asked": {
			"an apply to one instance asks whether the field can change",
			intercept.Call{Request: apply, Reached: true, Sent: []byte(`{"metadata":{"uid":"u"}}`)},
			422, nil,
		},
		"KindGoing": {
			"its CRD is being deleted, which no role is to blame for",
			intercept.Call{
				Request: apply, Reached: true,
				Message: `widgets.g "a" is forbidden: create not allowed while custom resource definition is terminating`,
			},
			403, nil,
		},
		"Injected":       {"the server never saw it", intercept.Call{Request: create}, 403, nil},
		"Late":           {"it is out of date", intercept.Call{Request: create, Reached: true, Late: true}, 422, nil},
		"LeaseRefused":   {"leader election continues", intercept.Call{Request: lease, Reached: true}, 422, nil},
		"LeaseForbidden": {"no leader is elected", intercept.Call{Request: lease, Reached: true}, 403, []string{oracle.Forbidden}},
	}
	for name, tt := range tests {
		tt.call.Code = tt.code
		if diff := cmp.Diff(tt.want, names(oracle.Calls([]intercept.Call{tt.call}))); diff != "" {
			t.Errorf("%s, because %s (-want +got):\n%s", name, tt.reason, diff)
		}
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	resource := schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "sites"}
	kinds := map[intercept.GroupResource]bool{{Group: "g", Resource: "sites"}: true}
	ready := func(status metav1.ConditionStatus, at string) map[string]any {
		return map[string]any{"type": "Ready", "status": string(status), "reason": "R", "lastTransitionTime": at}
	}
	const early, late = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
	tests := map[string]struct {
		reason string
		states []map[string]any
		want   []string
	}{
		"Flip": {
			"that is when it moves", []map[string]any{
				{"conditions": []any{ready("False", early)}}, {"conditions": []any{ready("True", late)}},
			}, nil,
		},
		"Moved": {
			"nothing has flipped", []map[string]any{
				{"conditions": []any{ready("True", early)}}, {"conditions": []any{ready("True", late)}},
			}, []string{oracle.Status},
		},
		"UnknownStatus": {
			"there are three", []map[string]any{{"conditions": []any{ready("Maybe", early)}}}, []string{oracle.Status},
		},
		"Twice": {
			"which of them counts",
			[]map[string]any{{"conditions": []any{ready("True", early), ready("True", early)}}},
			[]string{oracle.Status},
		},
		"NoType": {
			"it is required",
			[]map[string]any{{"conditions": []any{map[string]any{"status": "True"}}}},
			[]string{oracle.Status},
		},
		"Future": {"no such generation", []map[string]any{{"observedGeneration": int64(2)}}, []string{oracle.Status}},
	}
	for name, tt := range tests {
		var changes []history.Change
		for _, state := range tt.states {
			u := &unstructured.Unstructured{Object: map[string]any{"kind": "Site", "status": state}}
			u.SetUID("u")
			u.SetGeneration(1)
			changes = append(changes, history.Change{Type: watch.Modified, Resource: resource, Object: u})
		}
		everyone := func(history.Change) bool { return true }
		if diff := cmp.Diff(tt.want, names(oracle.Statuses(changes, kinds, everyone))); diff != "" {
			t.Errorf("%s, because %s (-want +got):\n%s", name, tt.reason, diff)
		}
		none := func(history.Change) bool { return false }
		if found := oracle.Statuses(changes, kinds, none); len(found) > 0 {
			t.Errorf("%s: violation for a state of another writer: %v", name, found)
		}
	}
}

// An operator may delete and recreate an object after an immutable field was rejected.
func TestRecreateAfterRejection(t *testing.T) {
	t.Parallel()
	refused := intercept.Call{
		Request: recorder.Request{Verb: "update", Resource: "services", Name: "a", Code: 422}, Reached: true,
	}
	gone := intercept.Call{Request: recorder.Request{Verb: "delete", Resource: "services", Name: "a", Code: 200}, Reached: true}
	other := gone
	other.Name = "b"
	if found := oracle.Calls([]intercept.Call{refused, gone}); len(found) > 0 {
		t.Errorf("%v", found)
	}
	if found := oracle.Calls([]intercept.Call{gone, refused, other}); len(found) != 1 {
		t.Errorf("%v, want one refusal", found)
	}
}
