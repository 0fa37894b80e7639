package explore

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// BornGarbage returns the UIDs of objects that were created after their owners had been deleted.
func BornGarbage(changes []history.Change) map[types.UID]bool { return bornGarbage(changes) }

// CauseOf returns the cause of a violation with a canonical message.
func CauseOf(oracle, message string) string {
	v := report.Violation{Oracle: oracle, Message: message}
	setCause(&v, func(text string) string { return text })
	return v.Cause
}

// EndStateViolation returns the violation for a difference of states, with its cause.
func EndStateViolation(diff string) report.Violation {
	v := report.Violation{Oracle: oracleEndState, Message: "it differs", Detail: diff}
	setCause(&v, func(text string) string { return text })
	return v
}

// Retry returns the time after which a failed write was repeated, or 0 if it is unknown.
func (x *Explorer) Retry() time.Duration { return x.retry }

// TimeoutAfterRetry returns the timeout of an exploration, and the notes about it, after a retry was measured.
func TimeoutAfterRetry(timeout, retry time.Duration) (time.Duration, []string) {
	x := &Explorer{Options: Options{Timeout: timeout}}
	x.extendTimeout(retry)
	return x.Timeout, x.retryNotes()
}
