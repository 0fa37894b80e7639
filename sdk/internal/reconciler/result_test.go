package reconciler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStaleRetry(t *testing.T) {
	t.Parallel()
	want := 20 * time.Millisecond
	for n := 1; n < 100; n++ {
		if got := staleRetry(n); got != want {
			t.Fatalf("retry %d comes after %s, want %s", n, got, want)
		}
		want = min(2*want, 5*time.Second)
	}
}

// TestStaleReadsAreReportedOnce checks that stale reads are reported after a time, independent of their number.
func TestStaleReadsAreReportedOnce(t *testing.T) {
	t.Parallel()
	var s staleReads
	begin, reported := time.Now(), []time.Duration(nil)
	for after := time.Duration(0); after < time.Minute; after += 500 * time.Millisecond {
		if s.record(begin.Add(after)) {
			reported = append(reported, after)
		}
	}
	if diff := cmp.Diff([]time.Duration{staleReportAfter}, reported); diff != "" {
		t.Errorf("reported after (-want +got):\n%s", diff)
	}
}
