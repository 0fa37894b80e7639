package state_test

import (
	"strings"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// Only what a correct operator does not keep from earlier steps is a difference between two namespaces.
func TestWithoutHistory(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	status := func(f fields) state.State { return state.State{"sites.example.com/a": fields{"status": f}} }
	annotated := func(f fields) state.State {
		return state.State{"configmaps/a": fields{"metadata": fields{"annotations": f}}}
	}
	objects := func(names ...string) state.State {
		s := state.State{}
		for _, name := range names {
			s[name] = fields{"data": fields{"a": "1"}}
		}
		return s
	}
	for name, test := range map[string]struct {
		fresh, edited state.State
		want          string // a part of the sentence, or "" for no difference
	}{
		"an object stays":     {objects(), objects("services/old"), "services/old is still there"},
		"an object is absent": {objects("services/new"), objects(), "services/new is missing"},
		"a field stays":       {status(fields{}), status(fields{"url": "http://old"}), `still has status.url ("http://old")`},
		"a field is absent":   {status(fields{"url": "http://new"}), status(fields{}), `lacks status.url ("http://new"), and a`},
		"an old value":        {status(fields{"phase": "Done"}), status(fields{"phase": "New"}), "has another status.phase"},
		"an annotation stays": {annotated(fields{}), annotated(fields{"a/sidecar": "1"}), "annotations.a/sidecar"},
		"a member stays":      {objects("pods/a-0"), objects("pods/a-0", "pods/a-1"), "pods/a-1 is still there"},
		"a smaller number":    {status(fields{"ready": int64(3)}), status(fields{"ready": int64(1)}), "has another status.ready"},
		"a desired number": {
			state.State{"deployments.apps/a": fields{"spec": fields{"replicas": int64(1)}}},
			state.State{"deployments.apps/a": fields{"spec": fields{"replicas": int64(3)}}},
			"has another spec.replicas",
		},
		"a condition that both have": {
			status(fields{"conditions": fields{"Ready": "True"}}), status(fields{"conditions": fields{"Ready": "False"}}),
			"has another status.conditions.Ready",
		},

		"equal":             {objects("services/a"), objects("services/a"), ""},
		"an empty value":    {status(fields{}), status(fields{"replicas": int64(0), "hosts": []any{}, "map": fields{}}), ""},
		"a counter":         {status(fields{"starts": int64(1)}), status(fields{"starts": int64(4)}), ""},
		"a new counter":     {status(fields{}), status(fields{"missed": int64(5)}), ""},
		"a record":          {status(fields{}), status(fields{"previousImage": "a:1", "history": []any{"a:1"}}), ""},
		"a recorded object": {annotated(fields{}), annotated(fields{"a/last-applied": "{}"}), ""},
		"a time":            {status(fields{}), status(fields{"changed": "$TIME", "day": "2026-11-26"}), ""},
		"seconds":           {status(fields{"at": time.Now().Unix()}), status(fields{"at": time.Now().Unix() - 5}), ""},
		"milliseconds":      {status(fields{"at": time.Now().UnixMilli()}), status(fields{"at": time.Now().UnixMilli() - 5}), ""},
		"a former condition": {
			status(fields{"conditions": fields{}}), status(fields{"conditions": fields{"Failed": "False"}}), "",
		},
		"an old revision": {objects("configmaps/a-5f8d9"), objects("configmaps/a-5f8d9", "configmaps/a-77b4c"), ""},
		"a numbered record": {
			state.State{"requests.example.com/a-1": fields{"metadata": fields{"annotations": fields{"a/revision": "1"}}}},
			state.State{"requests.example.com/a-3": fields{"metadata": fields{"annotations": fields{"a/revision": "3"}}}},
			"",
		},
		"another number and content": {
			state.State{"requests.example.com/a-1": fields{"spec": fields{"host": "a"}}},
			state.State{"requests.example.com/a-3": fields{"spec": fields{"host": "b"}}},
			"has another spec.host",
		},
		"another revision": {objects("configmaps/a-v1"), objects("configmaps/a-v3"), ""},
	} {
		fresh, edited := state.WithoutHistory(test.fresh, test.edited)
		got := state.Explain(fresh, edited)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if diff := state.Difference(fresh, edited); (diff == "") != (got == "") {
			t.Errorf("%s: the difference %q, and %q", name, diff, got)
		}
	}
}

// A fault that changes the cluster may change the numbers of revisions and what labels and annotations record for good, and
// nothing else.
func TestWithoutRecords(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	object := func(name, revision, image string) state.State {
		return state.State{"requests.example.com/" + name: fields{
			"metadata": fields{"annotations": fields{"a/revision": revision}},
			"spec":     fields{"revision": "1", "image": image},
		}}
	}
	for name, test := range map[string]struct {
		want, got state.State
		differs   bool
	}{
		"a number":           {object("a-1", "1", "x"), object("a-2", "2", "x"), false},
		"an annotation":      {object("a", "1", "x"), object("a", "2", "x"), false},
		"a field":            {object("a-1", "1", "x"), object("a-2", "2", "y"), true},
		"a name":             {object("a", "1", "x"), object("b", "1", "x"), true},
		"one that is absent": {object("a-1", "1", "x"), state.State{}, true},
	} {
		if diff := state.Difference(state.WithoutRecords(test.want, test.got)); (diff != "") != test.differs {
			t.Errorf("%s: the difference %q", name, diff)
		}
	}
}

// A message has no value of a Secret.
func TestExplainHidesSecrets(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	with := func(v string) state.State { return state.State{"secrets/a": fields{"data": fields{"password": v}}} }
	got := state.Explain(with("b2xk"), with("bmV3"))
	if !strings.Contains(got, "data.password") || strings.Contains(got, "bmV3") {
		t.Error(got)
	}
}
