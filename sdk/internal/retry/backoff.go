package retry

import (
	"context"
	"errors"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// nondeterministic matches parts of an error that differ between two occurrences of one failure: ports of a client,
// durations, memory addresses.
var nondeterministic = regexp.MustCompile(
	`\d+\.\d+\.\d+\.\d+:\d+->|\[[0-9a-fA-F:]+\]:\d+->|0x[0-9a-f]{6,}|\b\d+(\.\d+)?(ns|µs|ms|s)\b`)

// Describe returns the text of a failure for a condition. It is equal for all occurrences of one failure, so that a repeated
// failure does not change the status.
func Describe(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "the API server did not answer in time"
	}
	return nondeterministic.ReplaceAllString(err.Error(), "")
}

// backoff returns the delay before the n-th consecutive retry, n counting from 1: 0.1 s, doubling up to 5 min.
func backoff(n int) time.Duration {
	const first, limit = 100 * time.Millisecond, 5 * time.Minute
	if n > 12 {
		return limit
	}
	return min(first<<(n-1), limit)
}

// BackoffAfter returns the delay after a failure: the larger one of the backoff and the delay that the API server suggests.
func BackoffAfter(err error, failures int) time.Duration {
	d := backoff(failures)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		d = max(d, time.Duration(seconds)*time.Second)
	}
	return d
}
