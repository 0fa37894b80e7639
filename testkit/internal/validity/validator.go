// Package validity says whether the API server would accept an object, before anything is stored.
//
// Generated objects are only worth running an operator against if a user could have created them. DryRun asks the API
// server itself, and so has the last word: defaults, CEL rules, webhooks, policies and quotas. Rules evaluates what a
// CustomResourceDefinition says, without a server, for where there is none.
//
// An answer is a verdict, not an error: that the server refuses an object is a fact about the object. An error means
// that there is no answer. Count lists what was refused, by field and reason, so that a campaign that only ever
// generated invalid objects does not pass for one that found nothing.
package validity

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An Oracle says whether the API server would accept an object. Oracles may be used concurrently.
type Validator interface {
	// Judge says whether to may take the place of from, or may be created if from is nil. Neither is changed. The error
	// is for when nobody can tell, for example because the API server does not answer.
	Judge(ctx context.Context, from, to *unstructured.Unstructured) (Verdict, error)
}

// A Verdict is what an oracle says of one object.
type Verdict struct {
	// Valid says that the object would be accepted. All else is empty then.
	Valid bool
	// Sentence is why it is refused, as a person would be told.
	Sentence string
	// Causes are the single reasons. There is at least one.
	Causes []Cause
}

// A Cause is one reason why an object is refused.
type Cause struct {
	// Field is what is wrong, for example spec.ports[0].port. It is empty if nobody says, as with most webhooks.
	Field string
	// Reason is the kind of mistake, for example FieldValueInvalid or Forbidden.
	Reason string
	// Message says what is wrong.
	Message string
}

// AcceptAll is an oracle for which every object is valid.
type AcceptAll struct{}

// Judge accepts the object.
func (AcceptAll) Judge(context.Context, *unstructured.Unstructured, *unstructured.Unstructured) (Verdict, error) {
	return Verdict{Valid: true}, nil
}
