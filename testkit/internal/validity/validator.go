// Package validity determines, before anything is stored, whether the API server would accept an object.
//
// Generated objects are useful for a test only if a user could have created them. DryRun asks the API server itself and
// is therefore authoritative: defaults, CEL rules, webhooks, policies and quotas. Rules evaluates the schema and rules
// of a CustomResourceDefinition without a server.
//
// A rejection is a verdict, not an error, because it is a fact about the object. An error means that there is no
// answer. Count counts the rejections by field and reason, so that an exploration that only generated invalid objects
// is not mistaken for one without findings.
package validity

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A Validator determines whether the API server would accept an object. It is safe for concurrent use.
type Validator interface {
	// Validate reports whether to may replace from, or may be created if from is nil. Neither is modified. An error means that
	// there is no answer, for example because the API server does not respond.
	Validate(ctx context.Context, from, to *unstructured.Unstructured) (Verdict, error)
}

// A Verdict is a validator's answer about one object.
type Verdict struct {
	// Valid reports that the object would be accepted. The other fields are empty then.
	Valid bool
	// Sentence is the reason for the rejection, as shown to a person.
	Sentence string
	// Causes lists the single reasons. There is at least one.
	Causes []Cause
}

// A Cause is one reason for the rejection of an object.
type Cause struct {
	// Field is the invalid field, for example spec.ports[0].port. It is empty if unknown, as with most webhooks.
	Field string
	// Reason is the kind of mistake, for example FieldValueInvalid or Forbidden.
	Reason string
	// Message describes the mistake.
	Message string
}

// AcceptAll is a validator that accepts every object.
type AcceptAll struct{}

// Validate accepts the object.
func (AcceptAll) Validate(context.Context, *unstructured.Unstructured, *unstructured.Unstructured) (Verdict, error) {
	return Verdict{Valid: true}, nil
}
