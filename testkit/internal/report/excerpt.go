package report

import "slices"

// A span is a stretch of a timeline that is shown as a whole or left out as a whole.
type span struct {
	first   int // index of the first entry in the timeline
	entries []Entry
	left    bool // out
}

// bad counts the entries that are marked.
func (s span) bad() int {
	n := 0
	for _, e := range s.entries {
		if e.Bad {
			n++
		}
	}
	return n
}

// A window says how much of a timeline is shown. An operator in a hot loop may have hundreds of bad entries: what it
// does is clear from the first of them, and how long it went on from the last.
type window struct {
	around      int // entries before and after what matters
	first, last int // of the entries that matter
	end         int // entries, where nothing in particular matters
}

const (
	wholeUpTo   = 12 // a timeline so short is shown as it is
	shortestGap = 3  // to say that something was left out takes a line, too
)

// excerpt divides a timeline into what matters and what lies between. What matters are the bad entries, and the faults
// where nothing is bad, with some entries around each; and what the scenario did, to know where one is.
func (w window) excerpt(timeline []Entry) []span {
	show := make([]bool, len(timeline))
	mark := func(which func(Entry) bool, around int) {
		for _, i := range w.some(timeline, which) {
			for j := max(0, i-around); j <= min(len(show)-1, i+around); j++ {
				show[j] = true
			}
		}
	}
	bad := func(e Entry) bool { return e.Bad }
	injected := func(e Entry) bool { return e.Lane == Fault }
	mark(bad, w.around)
	switch {
	case slices.ContainsFunc(timeline, bad):
		mark(injected, 1)
	case slices.ContainsFunc(timeline, injected):
		mark(injected, w.around)
	default: // then it matters what went on, and the operator may say why
		mark(func(e Entry) bool { return e.Lane == Log }, 0)
		for i := max(0, len(show)-w.end); i < len(show); i++ {
			show[i] = true
		}
	}
	mark(func(e Entry) bool { return e.Lane == Scenario }, 0)
	if len(show) > 0 {
		show[0], show[len(show)-1] = true, true
	}
	return spans(timeline, show)
}

// some returns the indexes of the entries in question, and only the first and the last of them if they are many.
func (w window) some(timeline []Entry, which func(Entry) bool) []int {
	var found []int
	for i, e := range timeline {
		if which(e) {
			found = append(found, i)
		}
	}
	if len(found) > w.first+w.last {
		return append(found[:w.first:w.first], found[len(found)-w.last:]...)
	}
	return found
}

// spans cuts where show changes, and shows gaps that are not worth a cut.
func spans(timeline []Entry, show []bool) []span {
	var cut []span
	for from := 0; from < len(timeline); {
		to := from + 1
		for to < len(timeline) && show[to] == show[from] {
			to++
		}
		left := !show[from] && to-from >= shortestGap && len(timeline) > wholeUpTo
		if last := len(cut) - 1; !left && last >= 0 && !cut[last].left {
			cut[last].entries = timeline[cut[last].first:to]
		} else {
			cut = append(cut, span{first: from, entries: timeline[from:to], left: left})
		}
		from = to
	}
	return cut
}
