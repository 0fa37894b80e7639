package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Errors in the operator's log are shown wherever they are in a timeline, a repeated one twice.
func TestLoggedErrors(t *testing.T) {
	t.Parallel()
	var timeline []Entry
	add := func(lane Lane, texts ...string) {
		for _, text := range texts {
			timeline = append(timeline, Entry{Lane: lane, Text: text})
		}
	}
	quiet := func() {
		for range 9 {
			add(Operator, "GET")
		}
		add(Log, "I1126 reconciled")
	}
	quiet()
	for i := range 9 {
		add(Log, fmt.Sprintf(`2026-11-26T08:30:0%dZ ERROR Reconciler error: the object has been modified`, i))
		quiet()
	}
	add(Log, "[process 2] Traceback (most recent call last):", "[process 2]   File op.py", "[process 2] KeyError: 'a'")
	add(Log, "[process 2] next")
	quiet()
	add(Log, `E1126 08:30:06 "Observed a panic"`, "goroutine 7 [running]:", "\tmain.go:7")
	add(Operator, "PUT")
	timeline[len(timeline)-1].Bad = true
	quiet()

	var got []string
	for _, s := range (window{around: 1, first: 2, last: 1, end: 2}).excerpt(timeline) {
		for _, e := range s.entries {
			if !s.omitted && e.Lane == Log && !strings.HasPrefix(e.Text, "I1126") {
				got = append(got, e.Text)
			}
		}
	}
	want := []string{
		"2026-11-26T08:30:00Z ERROR Reconciler error: the object has been modified",
		"2026-11-26T08:30:08Z ERROR Reconciler error: the object has been modified",
		"[process 2] Traceback (most recent call last):", "[process 2]   File op.py", "[process 2] KeyError: 'a'",
		`E1126 08:30:06 "Observed a panic"`, "goroutine 7 [running]:", "\tmain.go:7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shown lines of the log (-want +got):\n%s", diff)
	}
}
