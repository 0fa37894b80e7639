package sdk

import (
	"time"

	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// Wait returns an error for Reconcile and Finalize: an external condition must be met first. The object becomes
// Reconciling=True with the reason, a CamelCase word, and the message, a sentence. It does not count as a failure.
func Wait(reason, format string, args ...any) error { return retry.Wait(reason, format, args...) }

// WaitFor is [Wait] with a time after which the object is reconciled again in any case.
func WaitFor(after time.Duration, reason, format string, args ...any) error {
	return retry.WaitFor(after, reason, format, args...)
}

// Invalid returns an error for Reconcile and Finalize: the spec cannot be realized. The object becomes Stalled=True with the
// reason, a CamelCase word, and the message, a sentence that names the fix. It is not retried before the object or one of
// its references changes.
func Invalid(reason, format string, args ...any) error { return retry.Invalid(reason, format, args...) }

// Reason returns the reason of an error of [Wait], [WaitFor] or [Invalid], or of a function that returns such an error,
// such as [Ref]. It returns "" for other errors.
func Reason(err error) string { return retry.Reason(err) }
