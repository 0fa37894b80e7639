package timeline_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, uid: u, generation: 1, resourceVersion: "1"}
spec: {replicas: 1, template: {spec: {containers: [{name: app, image: "app:1"}, {name: side, image: "side:1"}]}}}
status: {conditions: [{type: Available, status: "False", reason: New, lastTransitionTime: "2026-01-01T00:00:00Z"}]}
`

func read(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestChanges(t *testing.T) {
	t.Parallel()
	began := time.Now()
	tests := map[string]struct {
		reason string
		kind   watch.EventType
		change func(*unstructured.Unstructured)
		want   report.Entry
	}{
		"Field": {
			"a field is named by its path", watch.Modified,
			func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(u.Object, int64(3), "spec", "replicas")
			},
			report.Entry{Text: "Deployment web is changed: spec.replicas: 1 -> 3"},
		},
		"ListItem": {
			"one of two containers is named", watch.Modified,
			func(u *unstructured.Unstructured) {
				list, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
				list[1].(map[string]any)["image"] = "side:2"
				_ = unstructured.SetNestedSlice(u.Object, list, "spec", "template", "spec", "containers")
			},
			report.Entry{Text: `Deployment web is changed: spec.template.spec.containers.side.image: "side:1" -> "side:2"`},
		},
		"Condition": {
			"a condition is told in words, and not by its times", watch.Modified,
			func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{
					"type": "Available", "status": "True", "reason": "Ready", "message": "1 of 1",
					"lastTransitionTime": "2026-01-01T00:00:09Z",
				}}, "status", "conditions")
			},
			report.Entry{Text: "Deployment web is changed: status.conditions.Available: False (New) -> True (Ready: 1 of 1)"},
		},
		"Many": {
			"the line has the first differences, the detail the rest", watch.Modified,
			func(u *unstructured.Unstructured) {
				u.SetLabels(map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"})
			},
			report.Entry{
				Text: `Deployment web is changed: metadata.labels.a: none -> "1"; metadata.labels.b: none -> "2"; ` +
					`metadata.labels.c: none -> "3" and 1 more`,
				Detail: `metadata.labels.d: none -> "4"`,
			},
		},
		"Deletion": {
			"who holds it matters more than when it began", watch.Modified,
			func(u *unstructured.Unstructured) {
				u.SetDeletionTimestamp(&metav1.Time{Time: began})
				u.SetFinalizers([]string{"x/y"})
			},
			report.Entry{Text: "Deployment web is being deleted, held by x/y"},
		},
		"Gone": {
			"it is over", watch.Deleted, func(*unstructured.Unstructured) {}, report.Entry{Text: "Deployment web is gone"},
		},
	}
	for name, tt := range tests {
		before, after := read(t, web), read(t, web)
		after.SetResourceVersion("2")
		tt.change(after)
		resource := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		got := timeline.Changes([]history.Change{
			{At: began, Type: watch.Added, Resource: resource, Object: before},
			{At: began, Type: tt.kind, Resource: resource, Object: after},
		}, began)
		tt.want.Lane = report.Cluster
		if diff := cmp.Diff(tt.want, got[1]); diff != "" {
			t.Errorf("%s, because %s (-want +got):\n%s", name, tt.reason, diff)
		}
	}
}

func TestCreation(t *testing.T) {
	t.Parallel()
	u := read(t, web)
	u.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Site", Name: "s", UID: "x", Controller: new(true)}})
	got := timeline.Changes([]history.Change{{Type: watch.Added, Object: u}}, time.Time{})
	want := report.Entry{
		Lane: report.Cluster, Text: "Deployment web is created, owned by Site s",
		Detail: "spec.replicas: 1\n" +
			`spec.template.spec.containers.app.image: "app:1"` + "\n" +
			`spec.template.spec.containers.app.name: "app"` + "\n" +
			`spec.template.spec.containers.side.image: "side:1"` + "\n" +
			`spec.template.spec.containers.side.name: "side"`,
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The texts distinguish objects with the same name in several namespaces.
func TestSeveralNamespaces(t *testing.T) {
	t.Parallel()
	var changes []history.Change
	for uid, namespace := range map[string]string{"1": "run", "2": "run-a", "3": ""} {
		u := read(t, "{kind: ConfigMap, metadata: {name: letter, namespace: '"+namespace+"', uid: '"+uid+"'}}")
		changes = append(changes, history.Change{Type: watch.Deleted, Object: u})
	}
	var got []string
	for _, e := range timeline.Changes(changes, time.Time{}) {
		got = append(got, e.Text)
	}
	slices.Sort(got)
	want := []string{"ConfigMap letter is gone", "ConfigMap run-a/letter is gone", "ConfigMap run/letter is gone"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSecretValuesAreHidden(t *testing.T) {
	t.Parallel()
	secret := func(value string) history.Change {
		return history.Change{Type: watch.Modified, Object: read(t, `{apiVersion: v1, kind: Secret, metadata: {name: s, uid: u},
data: {password: `+value+`}}`)}
	}
	first := secret("aHVudGVyMg==")
	first.Type = watch.Added
	told := timeline.Changes([]history.Change{first, secret("c2VjcmV0")}, time.Time{})
	for _, e := range told {
		if text := e.Text + e.Detail; strings.Contains(text, "aHVu") || strings.Contains(text, "c2Vj") ||
			!strings.Contains(text, `data.password: "hidden, `) {
			t.Errorf("the timeline says %s", text)
		}
	}
}

func TestEvent(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"core":   `{kind: Event, reason: Failed, message: no image, involvedObject: {kind: Pod, name: p}}`,
		"events": `{kind: Event, reason: Failed, note: no image, regarding: {kind: Pod, name: p}}`,
	} {
		resource := schema.GroupVersionResource{Version: "v1", Resource: "events"}
		got := timeline.Changes([]history.Change{{Type: watch.Added, Resource: resource, Object: read(t, text)}}, time.Time{})
		want := []report.Entry{{Lane: report.Event, Text: "Pod p: Failed: no image"}}
		got[0].At = 0
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	get := recorder.Request{Verb: "get", Resource: "pods", Namespace: "n", Name: "p"}
	with := func(r recorder.Request, code int) recorder.Request { r.Code = code; return r }
	tests := map[string]struct {
		reason string
		call   intercept.Call
		want   []report.Entry
	}{
		"Fine":     {"success", intercept.Call{Request: with(get, 200)}, []report.Entry{{Text: "get pods n/p -> 200"}}},
		"NotFound": {"a regular response", intercept.Call{Request: with(get, 404)}, []report.Entry{{Text: "get pods n/p -> 404"}}},
		"Conflict": {
			"conflicts are regular",
			intercept.Call{Request: with(get, 409), Message: "changed"},
			[]report.Entry{{Text: "get pods n/p -> 409", Detail: "changed"}},
		},
		"Forbidden": {
			"the message describes the error",
			intercept.Call{Request: with(get, 403), Message: "no right"},
			[]report.Entry{{Text: "get pods n/p -> 403", Detail: "no right", Bad: true}},
		},
		"Lost": {
			"the server's response is shown",
			intercept.Call{Request: with(get, 200), Lost: "no answer", Reached: true},
			[]report.Entry{{Text: "get pods n/p -> no answer (the server had answered 200)", Bad: true}},
		},
		"SecondProcess": {
			"the process is shown",
			intercept.Call{Request: with(get, 200), Process: 2},
			[]report.Entry{{Text: "[process 2] get pods n/p -> 200"}},
		},
		"Watch": {
			"a watch lasts as long as the operator",
			intercept.Call{Request: recorder.Request{Verb: "watch", Resource: "pods", Code: http.StatusOK}},
			[]report.Entry{},
		},
	}
	for name, tt := range tests {
		tt.call.Began = time.Second
		for i := range tt.want {
			tt.want[i].Lane = report.Operator
			tt.want[i].At = 3 * time.Second
		}
		if diff := cmp.Diff(tt.want, timeline.Requests([]intercept.Call{tt.call}, 2*time.Second)); diff != "" {
			t.Errorf("%s, because %s (-want +got):\n%s", name, tt.reason, diff)
		}
	}
}
