package desired

import (
	"errors"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// TestWorstChildError checks that the reported failure is the most severe one, and that a child with a long delay does not
// hold up the retry of another.
func TestWorstChildError(t *testing.T) {
	t.Parallel()
	rejected := func(message string, after time.Duration) error {
		return &retry.ReconcileError{Class: retry.ClassRejected, Message: message, After: after}
	}
	for name, test := range map[string]struct {
		errs    []error
		message string
		after   time.Duration
	}{
		"no failure":        {errs: []error{nil, nil}},
		"unclassified":      {errs: []error{errors.New("down")}},
		"the earliest time": {[]error{rejected("a", 5*time.Minute), nil, rejected("b", time.Second)}, "a", time.Second},
		"the first of one class": {
			[]error{rejected("a", time.Second), rejected("b", time.Minute)}, "a", time.Second,
		},
		"a severe failure that is not retried": {
			[]error{rejected("a", time.Second), &retry.ReconcileError{Class: retry.ClassConflict, Message: "b"}}, "b", time.Second,
		},
		"a less severe failure that is not retried": {
			[]error{retry.Invalid("Wrong", "a"), rejected("b", time.Second)}, "b", time.Second,
		},
		"no time": {[]error{retry.Invalid("Wrong", "b")}, "Wrong: b", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var plan []*Child
			for _, err := range test.errs {
				plan = append(plan, &Child{Err: err})
			}
			err := WorstChildError(plan)
			if (err == nil) != (test.message == "") || err != nil && err.Error() != test.message {
				t.Errorf("it is %v, want %q", err, test.message)
			}
			if after := retry.RequestedDelay(err); after != test.after {
				t.Errorf("the retry is after %s, want %s", after, test.after)
			}
		})
	}
}
