package external

import (
	"errors"
	"time"
)

// Errors of the functions of a [Kind]. Any other error means that it is not known whether the request was carried out; it is
// repeated with backoff. [CheckResponse] returns them by the status of an HTTP response.
var (
	// ErrNotFound means that the resource does not exist.
	ErrNotFound = errors.New("the external resource does not exist")
	// ErrExists is an error of a [ByName] creation: the name is taken.
	ErrExists = errors.New("an external resource with this name exists")
)

// RetryAfter returns an error for a request that the API has not carried out, and will carry out later, such as one that was
// throttled. All requests of the [Account] wait for this time; zero means the usual backoff of this resource alone.
func RetryAfter(d time.Duration, err error) error { return &retryAfterError{err, d} }

// Rejected returns an error for a request that the API has not carried out, and never will with this input. The custom
// resource is Stalled with reason ExternalRejected until its input changes.
func Rejected(err error) error { return &rejectedError{err} }

// Delay returns the time of [RetryAfter], and whether the error is one.
func Delay(err error) (time.Duration, bool) {
	if e, ok := errors.AsType[*retryAfterError](err); ok {
		return e.after, true
	}
	return 0, false
}

// IsRejected reports whether an error is one of [Rejected].
func IsRejected(err error) bool {
	_, ok := errors.AsType[*rejectedError](err)
	return ok
}

type retryAfterError struct {
	err   error
	after time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

type rejectedError struct{ err error }

func (e *rejectedError) Error() string { return e.err.Error() }
func (e *rejectedError) Unwrap() error { return e.err }
