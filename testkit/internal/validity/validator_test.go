package validity

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	crschema "github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// TestRejection checks which errors are about the object. The others are about the connection, the permissions or the
// state of the server.
func TestRejection(t *testing.T) {
	t.Parallel()
	kind, resource := schema.GroupKind{Kind: "Database"}, schema.GroupResource{Resource: "databases"}
	terminating := apierrors.NewForbidden(resource, "a", errors.New("the namespace goes"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	tests := map[string]struct {
		reason string
		err    error
		want   []Cause // nil if the error is not a rejection
	}{
		"invalid": {
			reason: "the schema or a rule rejects it and names the field",
			err: apierrors.NewInvalid(kind, "a", field.ErrorList{
				field.Required(field.NewPath("spec", "engine"), "give one"),
				field.Duplicate(field.NewPath("spec", "users").Index(1), 2),
			}),
			want: []Cause{
				{"spec.engine", "FieldValueRequired", "Required value: give one"},
				{"spec.users[1]", "FieldValueDuplicate", "Duplicate value: 2"},
			},
		},
		"unknown property": {
			reason: "strict validation is a bad request",
			err:    apierrors.NewBadRequest("strict decoding error"),
			want:   []Cause{{"", "BadRequest", "strict decoding error"}},
		},
		"denied": {
			reason: "most webhooks respond so",
			err:    apierrors.NewForbidden(resource, "a", errors.New("because")),
			want:   []Cause{{"", "Forbidden", `databases "a" is forbidden: because`}},
		},
		"too large": {
			reason: "it does not fit into etcd",
			err:    apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
			want:   []Cause{{"", "RequestEntityTooLarge", "Request entity too large: limit is 3145728"}},
		},
		"namespace ends":  {"the namespace is terminating", terminating, nil},
		"not installed":   {"the definition is missing", apierrors.NewNotFound(resource, "a"), nil},
		"overload":        {"the server is busy", apierrors.NewTooManyRequests("later", 1), nil},
		"broken webhook":  {"it is not about the object", apierrors.NewInternalError(errors.New("refused")), nil},
		"conflict":        {"other writers were faster, too often", apierrors.NewConflict(resource, "a", errors.New("x")), nil},
		"no credentials":  {"the request has no identity", apierrors.NewUnauthorized("who"), nil},
		"no answer":       {"there is no server", &http.MaxBytesError{}, nil},
		"context is over": {"the caller does not wait for it", context.Canceled, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verdict, refused := rejection(tc.err)
			if diff := cmp.Diff(tc.want, verdict.Causes); diff != "" || refused != (tc.want != nil) || verdict.Valid {
				t.Errorf("%s\nrejected %v: -want +got:\n%s", tc.reason, refused, diff)
			}
			if refused && verdict.Sentence != tc.err.Error() {
				t.Errorf("%s\nthe sentence is %q", tc.reason, verdict.Sentence)
			}
		})
	}
}

func TestOver(t *testing.T) {
	t.Parallel()
	object := func(spec string, metadata map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "spec": spec}}
	}
	stored := object("old", map[string]any{
		"name": "a", "resourceVersion": "7", "finalizers": []any{"x/y"},
		"labels": map[string]any{"gone": "1", "changed": "1", "operators": "1"},
	})
	stored.Object["status"] = "s"
	from := object("old", map[string]any{"name": "a", "labels": map[string]any{"gone": "1", "changed": "1"}})
	to := object("new", map[string]any{"name": "a", "labels": map[string]any{"changed": "2", "added": "1"}})
	want := object("new", map[string]any{
		"name": "a", "resourceVersion": "7", "finalizers": []any{"x/y"},
		"labels": map[string]any{"changed": "2", "added": "1", "operators": "1"},
	})
	before := stored.DeepCopy()
	if diff := cmp.Diff(want, mergeManifest(stored, from, to)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, stored); diff != "" {
		t.Errorf("the stored object was changed: %s", diff)
	}
	bare := object("x", map[string]any{"name": "a"})
	if got := mergeManifest(bare, bare, to).GetLabels(); len(got) != 2 {
		t.Errorf("labels %v", got)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	verdicts := map[string]Verdict{
		"fine": {Valid: true},
		"two": {Sentence: "two are bad", Causes: []Cause{
			{"spec.ports[0].port", "FieldValueInvalid", "no"}, {"spec.ports[12].port", "FieldValueInvalid", "no"},
		}},
		"one":    {Sentence: "one is bad", Causes: []Cause{{"spec.ports[3].port", "FieldValueInvalid", "no"}}},
		"denied": {Sentence: "the webhook says no", Causes: []Cause{{"", "Forbidden", "no"}}},
	}
	away := errors.New("away")
	c := &Count{Validator: validatorFunc(func(to *unstructured.Unstructured) (Verdict, error) {
		if verdict, ok := verdicts[to.GetName()]; ok {
			return verdict, nil
		}
		return Verdict{}, away
	})}
	var all sync.WaitGroup
	for _, name := range []string{"two", "fine", "denied", "one", "fine", "away"} {
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetName(name)
		verdict, err := c.Validate(t.Context(), nil, obj)
		if diff := cmp.Diff(verdicts[name], verdict); diff != "" || (name == "away") != errors.Is(err, away) {
			t.Errorf("%s: error %v, -want +got:\n%s", name, err, diff)
		}
		all.Go(func() { _ = c.String() })
	}
	all.Wait()
	want := []Rejection{
		{Field: "spec.ports[*].port", Reason: "FieldValueInvalid", Objects: 2, Sentence: "two are bad"},
		{Field: "", Reason: "Forbidden", Objects: 1, Sentence: "the webhook says no"},
	}
	if diff := cmp.Diff(want, c.Rejections()); diff != "" || c.Valid() != 2 || c.Rejected() != 3 {
		t.Errorf("%d valid, %d refused: -want +got:\n%s", c.Valid(), c.Rejected(), diff)
	}
	const table = `2 valid, 3 refused
     2  spec.ports[*].port  FieldValueInvalid: two are bad
     1  (no field)  Forbidden: the webhook says no`
	if diff := cmp.Diff(table, c.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	two := put("members", int64(2))
	both := map[string]any{"clone": map[string]any{}, "snapshot": map[string]any{"name": "a"}}
	tests := map[string]struct {
		reason string
		from   func(spec map[string]any) // nil if the object is new
		to     func(spec map[string]any)
		want   string // a part of the sentence; empty if it is valid
	}{
		"the sample":     {reason: "it is valid", to: two},
		"out of bounds":  {reason: "a schema rule", to: put("members", int64(10)), want: "spec.members: Invalid value: 10"},
		"no member":      {reason: "an enum rule", to: put("engine", "oracle"), want: `supported values: "postgres", "mysql"`},
		"a rule":         {reason: "a CEL rule", to: put("engine", "mysql", "members", int64(6)), want: "at most 5"},
		"a default":      {reason: "members is 1, so the rule holds", to: put("engine", "mysql", "members", nil)},
		"a change":       {reason: "the old object counts", from: two, to: put("engine", "mysql"), want: "cannot change"},
		"the same, new":  {reason: "there is no old object", to: put("engine", "mysql")},
		"given up":       {reason: "as above", from: two, to: drop("storage"), want: "storage cannot be given up"},
		"unknown":        {reason: "strict validation rejects it", to: put("imaeg", "a"), want: "spec.imaeg"},
		"another kind":   {reason: "the schema is of another kind"},
		"too few of one": {reason: "a CEL rule", to: put("exposure", map[string]any{}), want: "one of loadBalancer and nodePort"},
		"too many":       {reason: "a schema rule", to: put("source", both), want: "spec.source"},
	}
	rules := NewRules(database(t))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := sample(t)
			if tc.to == nil {
				to.SetKind("Other")
				if _, err := rules.Validate(t.Context(), nil, to); err == nil {
					t.Error("no error")
				}
				return
			}
			tc.to(spec(to))
			var from *unstructured.Unstructured
			if tc.from != nil {
				from = sample(t)
				tc.from(spec(from))
			}
			verdict, err := rules.Validate(t.Context(), from, to)
			if err != nil {
				t.Fatal(err)
			}
			if verdict.Valid != (tc.want == "") || !strings.Contains(verdict.Sentence, tc.want) {
				t.Errorf("%s\nvalid %v: %s\nwant %q", tc.reason, verdict.Valid, verdict.Sentence, tc.want)
			}
			if !verdict.Valid && len(verdict.Causes) == 0 {
				t.Error("there is no cause")
			}
		})
	}
}

type validatorFunc func(to *unstructured.Unstructured) (Verdict, error)

func (f validatorFunc) Validate(_ context.Context, _, to *unstructured.Unstructured) (Verdict, error) {
	return f(to)
}

// put sets fields. Names and values alternate.
func put(pairs ...any) func(map[string]any) {
	return func(spec map[string]any) {
		for i := 0; i < len(pairs); i += 2 {
			spec[pairs[i].(string)] = pairs[i+1]
		}
	}
}

func drop(name string) func(map[string]any) { return func(spec map[string]any) { delete(spec, name) } }

func spec(obj *unstructured.Unstructured) map[string]any { return obj.Object["spec"].(map[string]any) }

func database(t testing.TB) *crschema.Schema {
	t.Helper()
	data, err := os.ReadFile("../schema/testdata/crd/databases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := crschema.Parse(data, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sample(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	objects, err := manifest.Read("../schema/testdata/database.yaml")
	if err != nil {
		t.Fatal(err)
	}
	obj, err := database(t).Normal(objects[0])
	if err != nil {
		t.Fatal(err)
	}
	return obj
}
