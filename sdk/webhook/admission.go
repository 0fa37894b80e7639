package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/homeostat-dev/homeostat/sdk"
)

// validator implements [admission.Validator].
type validator[T sdk.Object] struct {
	op   *Operator[T]
	kind schema.GroupKind
}

func (v validator[T]) ValidateCreate(ctx context.Context, object T) (admission.Warnings, error) {
	if v.op.Validate == nil {
		return nil, nil
	}
	var none T
	warnings, err := v.op.Validate(ctx, none, object)
	return warnings, rejection(v.kind, object, err)
}

func (v validator[T]) ValidateUpdate(ctx context.Context, old, object T) (admission.Warnings, error) {
	if v.op.Validate == nil || !isOfInterest(ctx, object) {
		return nil, nil
	}
	warnings, err := v.op.Validate(ctx, old, object)
	return warnings, rejection(v.kind, object, err)
}

func (v validator[T]) ValidateDelete(ctx context.Context, object T) (admission.Warnings, error) {
	if v.op.ValidateDelete == nil {
		return nil, nil
	}
	warnings, err := v.op.ValidateDelete(ctx, object)
	return warnings, rejection(v.kind, object, err)
}

// defaulter implements [admission.Defaulter].
type defaulter[T sdk.Object] struct {
	op   *Operator[T]
	kind schema.GroupKind
}

func (d defaulter[T]) Default(ctx context.Context, object T) error {
	if !isOfInterest(ctx, object) {
		return nil
	}
	return rejection(d.kind, object, d.op.Default(ctx, object))
}

// isOfInterest reports whether a request creates an object, or changes more of it than metadata and status. Other updates
// are those of controllers, such as the finalizer of the operator: they must succeed for an object from before a rule.
func isOfInterest(ctx context.Context, object client.Object) bool {
	if object.GetDeletionTimestamp() != nil {
		return false
	}
	req, err := admission.RequestFromContext(ctx)
	if err != nil || len(req.OldObject.Raw) == 0 {
		return true
	}
	var before, after map[string]json.RawMessage
	if json.Unmarshal(req.OldObject.Raw, &before) != nil || json.Unmarshal(req.Object.Raw, &after) != nil {
		return true
	}
	for _, content := range []map[string]json.RawMessage{before, after} {
		delete(content, "metadata")
		delete(content, "status")
	}
	return !maps.EqualFunc(before, after, equalJSON)
}

// equalJSON ignores the order of keys.
func equalJSON(a, b json.RawMessage) bool {
	var left, right any
	return bytes.Equal(a, b) ||
		json.Unmarshal(a, &left) == nil && json.Unmarshal(b, &right) == nil && reflect.DeepEqual(left, right)
}

// rejection returns an error whose text is one sentence. If it consists of errors about fields, its text and its details are
// those of the validation by a CustomResourceDefinition.
func rejection(kind schema.GroupKind, object client.Object, err error) error {
	if err == nil {
		return nil
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return err
	}
	if fields := fieldErrors(err); fields != nil {
		return apierrors.NewInvalid(kind, cmp.Or(object.GetName(), object.GetGenerateName()), fields)
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")) // errors.Join separates by lines
}

// fieldErrors returns the errors about fields that err consists of, and nil if there is any other.
func fieldErrors(err error) field.ErrorList {
	if one, ok := err.(*field.Error); ok { //nolint:errorlint // the text of a wrapping error must not get lost
		return field.ErrorList{one}
	}
	var parts []error
	switch several := err.(type) { //nolint:errorlint // see above
	case interface{ Errors() []error }: // of field.ErrorList.ToAggregate
		parts = several.Errors()
	case interface{ Unwrap() []error }:
		if parts = several.Unwrap(); err.Error() != errors.Join(parts...).Error() {
			return nil // not of errors.Join: it has a text of its own
		}
	}
	var all field.ErrorList
	for _, part := range parts {
		fields := fieldErrors(part)
		if fields == nil {
			return nil
		}
		all = append(all, fields...)
	}
	return all
}
