package report

import (
	"fmt"
	"io"
	"slices"
)

// Parts of a timeline that a test shows: its end, because the test failed there, its beginning, and the bad entries.
const (
	tailEntries = 45 // entries at the end
	headEntries = 10 // and at the beginning
	badEntries  = 6  // bad ones in between, half of them the first
	aroundBad   = 3  // entries before and after each of these
	repeatable  = 3  // consecutive equal entries that are merged into one
	testDetail  = 8  // lines below an ordinary entry
)

// WriteTimeline writes a single timeline, for the log of a test. It is limited to some 100 entries and describes the
// omitted ones.
func WriteTimeline(w io.Writer, timeline []Entry) error {
	printable := mergeRepeated(Run{Timeline: timeline}.printable().Timeline)
	t := text{details: testDetail}
	t.writeSpans(printable, headAndTail(printable), "")
	if _, err := w.Write(t.Bytes()); err != nil {
		return fmt.Errorf("writing the timeline: %w", err)
	}
	return nil
}

// headAndTail divides a timeline into the spans that a test shows and the ones in between.
func headAndTail(timeline []Entry) []span {
	show := make([]bool, len(timeline))
	mark := func(from, to int) {
		for i := max(0, from); i < min(len(show), to); i++ {
			show[i] = true
		}
	}
	mark(0, headEntries)
	mark(len(show)-tailEntries, len(show))
	bad := window{first: badEntries / 2, last: badEntries / 2}.selectEntries(timeline, func(e Entry) bool { return e.Bad })
	for _, i := range bad {
		mark(i-aroundBad, i+aroundBad+1)
	}
	return spans(timeline, show)
}

// mergeRepeated merges consecutive equal entries into one.
func mergeRepeated(timeline []Entry) []Entry {
	folded := make([]Entry, 0, len(timeline))
	for len(timeline) > 0 {
		first := timeline[0]
		n := slices.IndexFunc(timeline, func(e Entry) bool {
			return e.Lane != first.Lane || e.Text != first.Text || e.Detail != first.Detail
		})
		if n < 0 {
			n = len(timeline)
		}
		if n >= repeatable {
			first.Text += fmt.Sprintf(" (%d times in a row, until %s)", n, offset(timeline[n-1].At))
			folded = append(folded, first)
		} else {
			folded = append(folded, timeline[:n]...)
		}
		timeline = timeline[n:]
	}
	return folded
}
