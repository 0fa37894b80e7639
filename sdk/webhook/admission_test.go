package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

var kind = schema.GroupKind{Group: "example.com", Kind: "Team"}

// team is an object of an operator's kind.
type team struct {
	corev1.ConfigMap
	status conditions.Status
}

func (o *team) CommonStatus() *conditions.Status { return &o.status }

// DeepCopyObject implements runtime.Object.
func (o *team) DeepCopyObject() runtime.Object {
	out := &team{}
	o.ConfigMap.DeepCopyInto(&out.ConfigMap)
	return out
}

func newTeam() *team {
	return &team{ConfigMap: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}}
}

func TestRejection(t *testing.T) {
	t.Parallel()
	pods := field.Invalid(field.NewPath("spec", "pods"), -1, "must be at least 0")
	group := field.Required(field.NewPath("spec", "group"), "")
	for name, test := range map[string]struct {
		reason string
		err    error
		want   string
	}{
		"one field": {
			"as a CRD says it", pods,
			`Team.example.com "blue" is invalid: spec.pods: Invalid value: -1: must be at least 0`,
		},
		"several fields": {
			"of ToAggregate", field.ErrorList{pods, group}.ToAggregate(),
			`Team.example.com "blue" is invalid: [spec.pods: Invalid value: -1: must be at least 0, ` +
				`spec.group: Required value]`,
		},
		"joined fields": {
			"of errors.Join", errors.Join(pods, nil, group),
			`Team.example.com "blue" is invalid: [spec.pods: Invalid value: -1: must be at least 0, ` +
				`spec.group: Required value]`,
		},
		"text": {"it stands alone", errors.New("teams are closed"), "teams are closed"},
		"wrapped": {
			"the text of the wrapping error stays", fmt.Errorf("in spring: %w", pods),
			"in spring: spec.pods: Invalid value: -1: must be at least 0",
		},
		"wrapped twice": {
			"as for one", fmt.Errorf("in spring: %w and %w", pods, group),
			"in spring: spec.pods: Invalid value: -1: must be at least 0 and spec.group: Required value",
		},
		"mixed": {
			"one line", errors.Join(pods, errors.New("teams are closed")),
			"spec.pods: Invalid value: -1: must be at least 0; teams are closed",
		},
		"status": {
			"it has its own code",
			apierrors.NewConflict(schema.GroupResource{Resource: "teams"}, "blue", errors.New("later")),
			`Operation cannot be fulfilled on teams "blue": later`,
		},
	} {
		if got := rejection(kind, newTeam(), test.err); got == nil || got.Error() != test.want {
			t.Errorf("%s: %v\nwant: %s, because %s", name, got, test.want, test.reason)
		}
	}
	if err := rejection(kind, newTeam(), nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	if err := rejection(kind, newTeam(), field.ErrorList{}.ToAggregate()); err != nil {
		t.Errorf("an empty list became %v", err)
	}
}

// requestContext is the context of an update.
func requestContext(t *testing.T, old, object any) context.Context {
	t.Helper()
	encode := func(o any) runtime.RawExtension {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: data}
	}
	return admission.NewContextWithRequest(t.Context(), admission.Request{
		AdmissionRequest: admissionv1.AdmissionRequest{OldObject: encode(old), Object: encode(object)},
	})
}

func TestUpdatesOfInterest(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	before := object{"metadata": object{"name": "a"}, "spec": object{"pods": 1}, "status": object{"ready": false}}
	for name, test := range map[string]struct {
		after object
		want  bool
	}{
		"spec":       {object{"metadata": object{"name": "a"}, "spec": object{"pods": 2}}, true},
		"no spec":    {object{"metadata": object{"name": "a"}}, true},
		"new field":  {object{"spec": object{"pods": 1}, "data": object{}}, true},
		"metadata":   {object{"metadata": object{"name": "a", "finalizers": []string{"f"}}, "spec": object{"pods": 1}}, false},
		"status":     {object{"spec": object{"pods": 1}, "status": object{"ready": true}}, false},
		"no changes": {before, false},
	} {
		ctx := requestContext(t, before, test.after)
		if got := isOfInterest(ctx, newTeam()); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
		deleted := newTeam()
		deleted.DeletionTimestamp = &metav1.Time{}
		if isOfInterest(ctx, deleted) {
			t.Errorf("%s: of interest although the object is being deleted", name)
		}
	}
	if !isOfInterest(t.Context(), newTeam()) {
		t.Error("a creation is of no interest")
	}
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	var calls []string
	op := &Operator[*team]{
		Validate: func(_ context.Context, old, _ *team) (admission.Warnings, error) {
			calls = append(calls, fmt.Sprintf("validate, creation %t", old == nil))
			return admission.Warnings{"old style"}, nil
		},
		ValidateDelete: func(context.Context, *team) (admission.Warnings, error) {
			calls = append(calls, "validate deletion")
			return nil, errors.New("it is needed")
		},
		Default: func(context.Context, *team) error {
			calls = append(calls, "default")
			return nil
		},
	}
	v, d := validator[*team]{op, kind}, defaulter[*team]{op, kind}
	ctx := requestContext(t, map[string]any{"spec": 1}, map[string]any{"spec": 2})
	warnings, err := v.ValidateCreate(t.Context(), newTeam())
	if err != nil || len(warnings) != 1 {
		t.Errorf("creation: %v, %v", warnings, err)
	}
	if warnings, err = v.ValidateUpdate(ctx, newTeam(), newTeam()); err != nil || len(warnings) != 1 {
		t.Errorf("update: %v, %v", warnings, err)
	}
	if _, err = v.ValidateDelete(t.Context(), newTeam()); err == nil || err.Error() != "it is needed" {
		t.Errorf("deletion: %v", err)
	}
	if err = d.Default(ctx, newTeam()); err != nil {
		t.Error(err)
	}
	unchanged := requestContext(t, map[string]any{"spec": 1}, map[string]any{"spec": 1})
	if _, err = v.ValidateUpdate(unchanged, newTeam(), newTeam()); err != nil {
		t.Error(err)
	}
	if err = d.Default(unchanged, newTeam()); err != nil {
		t.Error(err)
	}
	want := "[validate, creation true validate, creation false validate deletion default]"
	if got := fmt.Sprint(calls); got != want {
		t.Errorf("calls: %s\nwant:  %s", got, want)
	}
	none := validator[*team]{&Operator[*team]{}, kind}
	if _, err = none.ValidateCreate(t.Context(), newTeam()); err != nil {
		t.Error(err)
	}
	if _, err = none.ValidateUpdate(ctx, newTeam(), newTeam()); err != nil {
		t.Error(err)
	}
	if _, err = none.ValidateDelete(t.Context(), newTeam()); err != nil {
		t.Error(err)
	}
}
