package function

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const declaration = `version: 1
name: pages
kind: {apiVersion: example.com/v1, kind: Page}
owns:
- {apiVersion: v1, kind: ConfigMap, exclusiveMaps: [data]}
- {apiVersion: v1, kind: Secret, metadataOnly: true}
references: [{apiVersion: v1, kind: Secret}]
finalize: true
resyncSeconds: 60
`

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := Parse([]byte(declaration))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Version: 1, Name: "pages", Kind: Kind{"example.com/v1", "Page"}, Finalize: true, ResyncSeconds: 60,
		Owns: []OwnedKind{
			{Kind: Kind{"v1", "ConfigMap"}, ExclusiveMaps: []string{"data"}}, {Kind: Kind{"v1", "Secret"}, MetadataOnly: true},
		},
		References: []Kind{{"v1", "Secret"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct{ from, to, want string }{
		{"version: 1", "version: 2", "version is 2: this program reads version 1"},
		{"name: pages", "name: Pages", `name "Pages": a lowercase RFC 1123 label`},
		{"kind: Page", "kind: ''", `kind: apiVersion "example.com/v1" and kind "" do not name a kind`},
		{"{apiVersion: v1, kind: ConfigMap,", "{apiVersion: a/b/c, kind: ConfigMap,", `owns[0]: apiVersion "a/b/c"`},
		{"references:", "refers:", `unknown field "refers"`},
		{"references: [{apiVersion: v1,", "references: [{apiVersion: '',", "references[0]: "},
		{"finalize: true", "finalize: true\nobserves: [{}]", "observes[0]: "},
		{"finalize: true", "finalize: [", "yaml: line"},
	} {
		if _, err := Parse([]byte(strings.Replace(declaration, c.from, c.to, 1))); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("with %q the error is %v, want %q", c.to, err, c.want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("the error is %v", err)
	}
}

// Each field of an object survives, and a copy shares nothing with it.
func TestObject(t *testing.T) {
	t.Parallel()
	const text = `{"apiVersion":"example.com/v1","kind":"Page","metadata":{"name":"a","labels":{"x":"y"}},` +
		`"spec":{"big":9007199254740993,"list":[1,2.5,null]},"data":{"k":"v"},` +
		`"status":{"observedGeneration":3,"conditions":[{"type":"Ready","status":"True",` +
		`"lastTransitionTime":"2026-01-02T03:04:05Z","reason":"Succeeded","message":""}],"seen":{"n":7}}}`
	o := &Object{}
	if err := json.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	if o.Name != "a" || o.Status.ObservedGeneration != 3 || len(o.Status.Conditions) != 1 || len(o.Fields) != 2 {
		t.Fatalf("it is %+v", o)
	}
	copied, ok := o.DeepCopyObject().(*Object)
	if !ok {
		t.Fatal("the copy is of another type")
	}
	o.Status.Fields["seen"].(map[string]any)["n"] = int64(8)
	o.Labels["x"] = "z"
	o.Status.Conditions[0].Status = metav1.ConditionFalse
	o.Fields["spec"].(map[string]any)["big"] = int64(0)
	data, err := json.Marshal(copied)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(string(data), "9007199254740993") {
		t.Errorf("a large integer is %s", data)
	}
	list := &ObjectList{Items: []Object{*o}}
	if items := list.DeepCopyObject().(*ObjectList).Items; items[0].Name != "a" {
		t.Errorf("the items are %v", items)
	}
	if data, err := json.Marshal(Status{}); err != nil || string(data) != "{}" {
		t.Errorf("an empty status is %s, %v", data, err)
	}
}

func TestDecodeAnswer(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/answer-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ ID string }
		if err := json.Unmarshal(data, &answer); err != nil {
			t.Fatal(err)
		}
		if _, err := decodeAnswer(data, answer.ID); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for text, want := range map[string]string{
		``:                              "not an answer of protocol 1: EOF",
		`{"protocol":1,"id":"1"}{}`:     "more than one JSON value",
		`{"protocol":1,"id":"2"}`:       `its id is "2", and that of the request is "1"`,
		`{"protocol":1,"id":"1","x":1}`: `unknown field "x"`,
		`{"protocol":1,"id":"1","error":"a","wait":{"reason":"A","message":"b"}}`:        "more than one of unfinished, wait,",
		`{"protocol":1,"id":"1","wait":{"reason":"A"}}`:                                  "wait needs a reason and a message",
		`{"protocol":1,"id":"1","status":{"conditions":[]}}`:                             "status.conditions is written by the",
		`{"protocol":1,"id":"1","requeueAfterSeconds":-1}`:                               "requeueAfterSeconds is -1",
		`{"protocol":1,"id":"1","children":[{"object":{"kind":"A","apiVersion":"v1"}}]}`: "children[0]: object needs apiVersion",
		`{"protocol":1,"id":"1","children":[{"object":{"kind":"A","apiVersion":"v1","metadata":{"name":"a"}},` +
			`"onImmutable":"Never"}]}`: "onImmutable is",
		`{"protocol":1,"id":"1","children":[{"object":{"kind":"A","apiVersion":"v1","metadata":{"name":"a"}},` +
			`"holdBack":{}}]}`: "holdBack needs",
	} {
		if _, err := decodeAnswer([]byte(text), "1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("for %s the error is %v, want %q", text, err, want)
		}
	}
}

// A status has the values that the API server returns for it.
func TestStorable(t *testing.T) {
	t.Parallel()
	const text = `{"protocol":1,"id":"1","status":{"a":2.0,"b":null,"c":{"d":null},"e":[1,0.5,{"f":null}]}}`
	answer, err := decodeAnswer([]byte(text), "1")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"a": int64(2), "c": map[string]any{}, "e": []any{int64(1), 0.5, map[string]any{}}}
	if diff := cmp.Diff(want, answer.Status); diff != "" {
		t.Error(diff)
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{`{"a":1,"b":[1,2]}`, `{"b":[1,2],"a":1}`, ""},
		{`{"a":{"b":[1,{"c":2}]}}`, `{"a":{"b":[1,{"c":3}]}}`, "a.b[1].c"},
		{`{"a":1}`, `{"a":1,"b":null}`, "b"},
		{`{"a":1,"b":2}`, `{"a":1}`, "b"},
		{`{"a":[1]}`, `{"a":[1,2]}`, "a"},
		{`{"a":[1]}`, `{"a":{}}`, "a"},
		{`{"a":{}}`, `{"a":1}`, "a"},
		{`{"a":"1"}`, `{"a":1}`, "a"},
		{`{`, `{}`, "their beginning"},
	} {
		if got := difference([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("%s and %s differ at %q, want %q", c.a, c.b, got, c.want)
		}
	}
}

func TestServerURL(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"http://localhost:80/": true, "https://a/b": true, "unix:///run/s": true, "unix://run/s": false, "localhost:80": false,
		"": false, "ftp://a": false, "http://": false, ":": false,
	} {
		if err := (&Server{URL: url}).Validate(); (err == nil) != ok {
			t.Errorf("for %q the error is %v", url, err)
		}
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for n, want := range map[float64]time.Duration{0: 0, 1.5: 1500 * time.Millisecond, -1: -time.Second, 1e18: year} {
		if got := seconds(n); got != want {
			t.Errorf("%v s is %s, want %s", n, got, want)
		}
	}
}
