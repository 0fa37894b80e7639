package retry

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// Class is the row of the error table for a failure.
type Class int

// The classes, in the order of severity. From ClassWait on they are classes of a [ReconcileError].
const (
	ClassNone      Class = iota
	ClassStale           // the read state was outdated: retry soon, uncounted
	ClassOutdated        // the read version of the object itself was outdated: retry when the cache shows a newer one
	ClassTransient       // a retry may succeed
	ClassWait            // an external condition must be met first
	ClassInvalid         // the object must be edited
	ClassContended       // another manager keeps reverting the child
	ClassRejected        // the API server rejects the child; the end of the cause is not observable
	ClassConflict        // a conflicting object has the child's name
	ClassPanic           // a bug in the operator
)

// Classify returns the class of an error.
func Classify(err error) Class {
	switch p := MostSevere(err); {
	case err == nil:
		return ClassNone
	case p != nil:
		return p.Class
	case apierrors.IsForbidden(err): // no newer state ends it
		return ClassTransient
	case errors.Is(err, ErrOutdated):
		return ClassOutdated
	case errors.Is(err, apply.ErrStale), errors.Is(err, ErrNotSynced), apierrors.IsConflict(err):
		return ClassStale
	default:
		return ClassTransient
	}
}

// MostSevere returns the problem with the highest class among all wrapped errors, or nil.
func MostSevere(err error) *ReconcileError {
	switch err := err.(type) { //nolint:errorlint // it walks the whole tree of errors, as errors.As does.
	case *ReconcileError:
		return err
	case interface{ Unwrap() error }:
		return MostSevere(err.Unwrap())
	case interface{ Unwrap() []error }:
		var found *ReconcileError
		for _, e := range err.Unwrap() {
			if p := MostSevere(e); p != nil && (found == nil || p.Class > found.Class) {
				found = p
			}
		}
		return found
	}
	return nil
}

// ErrOutdated means that the object itself was written after it was read.
var ErrOutdated = errors.New("the object was changed since it was read")

// MarkOutdated marks a conflict in a write of the object itself.
func MarkOutdated(err error) error {
	if apierrors.IsConflict(err) {
		return errors.Join(ErrOutdated, err)
	}
	return err
}

// ErrNotSynced means that a new reference has not been read yet.
var ErrNotSynced = errors.New("the reference is being read")
