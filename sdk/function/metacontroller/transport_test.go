package metacontroller

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/function"
)

// connect returns a connection to hooks that answer with these responses, and the requests of the hooks by path.
func connect(t *testing.T, controller int, responses map[string]string) (function.Connection, map[string]map[string]any) {
	t.Helper()
	controllers, err := parse([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	c := controllers[controller]
	if responses["/customize"] != "" {
		c.Spec.Hooks.Customize = &Hook{Webhook: &Webhook{URL: "http://hooks.pages/customize"}}
	}
	requests := map[string]map[string]any{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request map[string]any
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		requests[r.URL.Path] = request
		_, _ = io.WriteString(w, responses[r.URL.Path]) // the caller sees that it is incomplete
	}))
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Page"}, meta.RESTScopeNamespace)
	for _, kind := range []string{"ConfigMap", "Pod", "Secret", "Service"} {
		mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, meta.RESTScopeNamespace)
	}
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	transport := &Transport{Controller: c, Parent: c.parents()[0], Base: server.URL, Mapper: mapper}
	if _, err := transport.Config(); err != nil {
		t.Fatal(err)
	}
	connection := transport.Connect(logr.Discard())
	t.Cleanup(connection.Close)
	return connection, requests
}

// call sends a request for a Page with a ready pod and a pod that is not ready.
func call(t *testing.T, c function.Connection, name string, references ...function.Reference) (string, error) {
	t.Helper()
	pod := func(name, ready string) map[string]any {
		return map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": "shop"},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready}}},
		}
	}
	metadata := map[string]any{"name": "home", "namespace": "shop", "uid": "u", "generation": 12345678901234567}
	request, err := json.Marshal(function.Request{
		Protocol: 1, ID: "7", Call: name,
		Object:     map[string]any{"metadata": metadata},
		Children:   []map[string]any{pod("a", "True"), pod("b", "False")},
		References: references,
	})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Call(t.Context(), request)
	return string(answer), err
}

func TestSync(t *testing.T) {
	t.Parallel()
	c, requests := connect(t, 0, map[string]string{"/sync": `{
		"status": {"size": 12345678901234567, "observedGeneration": 3, "conditions": [
			{"type": "Ready", "status": "True"}, {"type": "Served", "status": "True"}]},
		"resyncAfterSeconds": 1.5,
		"children": [
			{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
			{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
			{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}},
			{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
			{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "generation": 12345678901234567}}]}`})
	answer, err := call(t, c, function.CallReconcile)
	if err != nil {
		t.Fatal(err)
	}
	const pod = `{"object":{"apiVersion":"v1","kind":"Pod","metadata":`
	const after = `,"after":[{"apiVersion":"v1","kind":"Pod","name":"%s"}],"onImmutable":"Recreate","ready":`
	want := `{"protocol":1,"id":"7","children":[` +
		`{"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}},` +
		`{"object":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}},"createOnly":true},` +
		pod + `{"name":"new"}},"onImmutable":"Recreate","ready":{"ok":false,"message":"condition Ready is missing"}},` +
		pod + `{"name":"a"}}` + fmt.Sprintf(after, "new") + `{"ok":true}},` +
		pod + `{"generation":12345678901234567,"name":"b"}}` + fmt.Sprintf(after, "a") + `{"ok":true}}],` +
		`"status":{"size":12345678901234567},` +
		`"conditions":[{"type":"Served","status":"True","reason":"Served"}],"requeueAfterSeconds":1.5}`
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("the answer differs (-want +got):\n%s", diff)
	}
	request := requests["/sync"]
	children, _ := request["children"].(map[string]any)
	pods, _ := children["Pod.v1"].(map[string]any)
	if len(children) != 3 || len(pods) != 2 || pods["a"] == nil || request["finalizing"] != false || request["parent"] == nil {
		t.Errorf("the request is %v: the children are those of each kind, by name", request)
	}
	controller, _ := json.Marshal(request["controller"])
	if !strings.Contains(string(controller), "revisionHistory") {
		t.Errorf("the controller in the request has not all of its fields: %s", controller)
	}
}

func TestFinalize(t *testing.T) {
	t.Parallel()
	for response, want := range map[string]string{
		`{"finalized": false, "children": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}]}`: `{"protocol":1,` +
			`"id":"7","children":[{"object":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}},"createOnly":true}],` +
			`"unfinished":{"reason":"Finalizing","message":"the finalize hook has not finished"}}`,
		`{"finalized": true}`: `{"protocol":1,"id":"7"}`,
	} {
		c, requests := connect(t, 0, map[string]string{"/finalize": response})
		answer, err := call(t, c, function.CallFinalize)
		if err != nil || answer != want || requests["/finalize"]["finalizing"] != true {
			t.Errorf("the answer is %s, %v; it must be %s", answer, err, want)
		}
	}
}

func TestDecorate(t *testing.T) {
	t.Parallel()
	c, requests := connect(t, 1, map[string]string{"/sync": `{"labels": {"a": "1", "b": null},
		"annotations": null, "attachments": [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}]}`})
	answer, err := call(t, c, function.CallReconcile)
	want := `{"protocol":1,"id":"7","children":[{"object":{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"}},` +
		`"onImmutable":"Recreate"}],"labels":{"a":"1"}}`
	if err != nil || answer != want {
		t.Errorf("the answer is %s, %v; it must be %s", answer, err, want)
	}
	request := requests["/sync"]
	if request["object"] == nil || request["attachments"] == nil || request["parent"] != nil || request["children"] != nil {
		t.Errorf("the request is %v: it must have the object and its attachments", request)
	}
}

func TestCustomize(t *testing.T) {
	t.Parallel()
	c, requests := connect(t, 0, map[string]string{"/sync": "{}", "/customize": `{"relatedResources": [
		{"apiVersion": "v1", "resource": "secrets", "names": ["x", "y"]},
		{"apiVersion": "v1", "resource": "configmaps", "labelSelector": {"matchLabels": {"app": "web"}}},
		{"apiVersion": "v1", "resource": "namespaces", "labelSelector": {}}]}`})
	references := []function.Reference{
		{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "x"},
		{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "y"},
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Selector: "app=web"},
		{APIVersion: "v1", Kind: "Namespace"},
	}
	answer, err := call(t, c, function.CallReconcile)
	var got function.Answer
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(references, got.References); diff != "" || err != nil || requests["/sync"] != nil {
		t.Fatalf("the related objects are to be read first, %v (-want +got):\n%s", err, diff)
	}
	references[1].Objects = []map[string]any{{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "y", "namespace": "shop"},
	}}
	if _, err := call(t, c, function.CallReconcile, references...); err != nil {
		t.Fatal(err)
	}
	related, _ := requests["/sync"]["related"].(map[string]any)
	secrets, _ := related["Secret.v1"].(map[string]any)
	if len(related) != 3 || len(secrets) != 1 || secrets["y"] == nil {
		t.Errorf("the related objects in the request are %v", related)
	}
}

// A mistake of a hook is one sentence that names the hook.
func TestMistakesOfHooks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		controller             int
		path, response, reason string
		want                   string
	}{
		"no JSON": {0, "/sync", "Traceback", function.ReasonInvalidAnswer, "the response of the sync hook is not usable: invalid"},
		"other kind": {
			0, "/sync", `{"children": [{"apiVersion": "v1", "kind": "Service"}]}`, function.ReasonInvalidAnswer,
			"the response of the sync hook: children[0]: kind Service (v1) is not in spec.childResources: add it",
		},
		"attachment": {
			1, "/sync", `{"attachments": [{"apiVersion": "v1", "kind": "Pod"}]}`, function.ReasonInvalidAnswer,
			"the response of the sync hook: attachments[0]: kind Pod (v1) is not in spec.attachments: add it",
		},
		"status of a decorated object": {
			1, "/sync", `{"status": {}}`, function.ReasonInvalidAnswer,
			"the response of the sync hook: it has a status: the status of a decorated object belongs to the controller of its kind",
		},
		"condition": {
			0, "/sync", `{"status": {"conditions": [1]}}`, function.ReasonInvalidAnswer,
			"the response of the sync hook: status.conditions[0]: json",
		},
		"unknown resource": {
			0, "/customize", `{"relatedResources": [{"apiVersion": "v1", "resource": "nodes"}]}`,
			function.ReasonInvalidAnswer, "the customize hook: finding the kind of resource nodes of v1",
		},
		"selector": {0, "/customize", `{"relatedResources": [{"apiVersion": "v1", "resource": "pods", "labelSelector":
			{"matchLabels": {"a": "b c"}}}]}`, function.ReasonInvalidAnswer, "the customize hook: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := connect(t, test.controller, map[string]string{test.path: test.response})
			_, err := call(t, c, function.CallReconcile)
			failure, ok := err.(*function.CallError) //nolint:errorlint // it is returned as it is.
			if !ok || failure.Reason != test.reason || !strings.HasPrefix(failure.Message, test.want) {
				t.Errorf("the error is %v; it must begin with %q", err, test.want)
			}
		})
	}
}
