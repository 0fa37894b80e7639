package report

import (
	"regexp"
	"slices"
)

// A span is a part of a timeline that is either shown or omitted as a whole.
type span struct {
	first   int // index of the first entry in the timeline
	entries []Entry
	omitted bool // omitted
}

// bad returns the number of bad entries.
func (s span) bad() int {
	n := 0
	for _, e := range s.entries {
		if e.Bad {
			n++
		}
	}
	return n
}

// A window limits the shown part of a timeline. An operator in a hot loop may have hundreds of bad entries: the first
// of them show the behavior, and the last show its duration.
type window struct {
	around      int // entries before and after a relevant one
	first, last int // of the relevant entries
	changes     int // last changes of objects, which explain a wrong end state
	end         int // entries shown if none is relevant
}

const (
	wholeUpTo   = 12 // a timeline of at most this length is shown completely
	shortestGap = 3  // the line that reports an omission needs room, too
)

// excerpt divides a timeline into relevant spans and omitted ones. Relevant are the bad entries or, if there is none,
// the faults, with some entries around each. Always shown are the scenario's entries for orientation, errors in the
// operator's log because they may be the cause, and the last changes of objects, which explain the end state.
func (w window) excerpt(timeline []Entry) []span {
	show := make([]bool, len(timeline))
	mark := func(which func(Entry) bool, around int) {
		for _, i := range w.selectEntries(timeline, which) {
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
	default: // without faults the writes and the last entries are relevant, and the operator's log may explain them
		mark(func(e Entry) bool { return e.Lane == Operator && write.MatchString(e.Text) }, 0)
		mark(func(e Entry) bool { return e.Lane == Log && !isLifecycle(e) }, 0)
		showLast(show, timeline, w.end, func(e Entry) bool { return !isLifecycle(e) })
	}
	mark(func(e Entry) bool { return e.Lane == Scenario }, 0)
	showLast(show, timeline, w.changes, func(e Entry) bool { return e.Lane == Cluster })
	for _, i := range w.loggedErrors(timeline) {
		show[i] = true
	}
	if len(show) > 0 {
		show[0], show[len(show)-1] = true, true
	}
	return spans(timeline, show)
}

// showLast shows the last n entries that the predicate selects.
func showLast(show []bool, timeline []Entry, n int, which func(Entry) bool) {
	for i := len(timeline) - 1; i >= 0 && n > 0; i-- {
		if which(timeline[i]) {
			show[i] = true
			n--
		}
	}
}

// write matches a request that writes an object.
var write = regexp.MustCompile(`^(?:\[process \d+\] )?(?:create|update|patch|apply|delete|deletecollection) `)

func isLifecycle(e Entry) bool { return e.Lane == Log && lifecycle.MatchString(e.Text) }

// lifecycle matches what controller-runtime logs at each start and stop.
var lifecycle = regexp.MustCompile(`^(?:\[process \d+\] )?(?:Starting (?:EventSource|Controller|workers)|` +
	`Stopping and waiting for|Shutdown signal received|All workers finished|Wait completed)`)

// selectEntries returns the indexes of the selected entries. If they are many, it returns only the first and the last
// of them.
func (w window) selectEntries(timeline []Entry, which func(Entry) bool) []int {
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

// spans divides the timeline at changes of show. Gaps that are too short to omit are shown.
func spans(timeline []Entry, show []bool) []span {
	var cut []span
	for from := 0; from < len(timeline); {
		to := from + 1
		for to < len(timeline) && show[to] == show[from] {
			to++
		}
		left := !show[from] && to-from >= shortestGap && len(timeline) > wholeUpTo
		if last := len(cut) - 1; !left && last >= 0 && !cut[last].omitted {
			cut[last].entries = timeline[cut[last].first:to]
		} else {
			cut = append(cut, span{first: from, entries: timeline[from:to], omitted: left})
		}
		from = to
	}
	return cut
}
