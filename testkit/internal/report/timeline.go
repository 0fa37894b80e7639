package report

import (
	"fmt"
	"io"
	"slices"
)

// What of a timeline a test shows: its end, because that is where it failed, its beginning, and what is marked.
const (
	tailOf     = 45 // entries at the end
	headOf     = 10 // and at the beginning
	badOf      = 6  // marked ones in between, half of them the first
	aroundBad  = 3  // entries before and after each of these
	repeatable = 3  // entries that say the same are told as one from this number on
	testDetail = 8  // lines below an entry that is not marked
)

// WriteTimeline writes a timeline by itself, for the log of a test. It is never longer than some 100 entries, and says what
// it leaves out.
func WriteTimeline(w io.Writer, timeline []Entry) error {
	printable := fold(Run{Timeline: timeline}.printable().Timeline)
	t := text{details: testDetail}
	t.spans(printable, ends(printable), "")
	if _, err := w.Write(t.Bytes()); err != nil {
		return fmt.Errorf("writing the timeline: %w", err)
	}
	return nil
}

// ends divides a timeline that a test shows into what is shown and what lies between.
func ends(timeline []Entry) []span {
	show := make([]bool, len(timeline))
	mark := func(from, to int) {
		for i := max(0, from); i < min(len(show), to); i++ {
			show[i] = true
		}
	}
	mark(0, headOf)
	mark(len(show)-tailOf, len(show))
	bad := window{first: badOf / 2, last: badOf / 2}.some(timeline, func(e Entry) bool { return e.Bad })
	for _, i := range bad {
		mark(i-aroundBad, i+aroundBad+1)
	}
	return spans(timeline, show)
}

// fold tells entries in a row that say the same as one.
func fold(timeline []Entry) []Entry {
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
