package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entries returns a timeline of letters: s is the scenario's, f a fault, c a change of an object, w a write, i a line of the
// log about a start or a stop, ! is bad. The others are ordinary.
func entries(s string) []Entry {
	var timeline []Entry
	for _, r := range s {
		lane := map[rune]Lane{'s': Scenario, 'f': Fault, 'c': Cluster, 'w': Operator, 'i': Log}[r]
		text := string(r)
		switch r {
		case 'w':
			text = "update configmaps a -> 200"
		case 'i':
			text = "Stopping and waiting for caches"
		}
		timeline = append(timeline, Entry{Text: text, Bad: r == '!', Lane: lane})
	}
	return timeline
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	dots := func(n int) string { return strings.Repeat(".", n) }
	hotLoop := strings.Repeat("!", 90)
	for name, tc := range map[string]struct{ reason, timeline, want string }{
		"bad": {
			"what is bad is shown with what is around it", dots(20) + "!" + dots(20),
			". <16> ...!... <16> .",
		},
		"fault": {
			"where nothing is bad, the fault is", dots(20) + "f" + dots(20),
			". <16> ...f... <16> .",
		},
		"both": {
			"where something is bad, the fault is seen, too", dots(9) + "f" + dots(9) + "!" + dots(9),
			". <7> .f. <5> ...!... <5> .",
		},
		"scenario": {"the current step and the end are shown", dots(9) + "s" + dots(9), ". <8> s <7> .."},
		"writes": {
			"without a fault, writes are shown, and not what is logged at a stop", dots(9) + "s" + dots(9) + "w" + dots(9) + "iiiii",
			". <8> s <9> w <7> .. <4> i",
		},
		"short": {"a short timeline is shown completely", dots(12), dots(12)},
		"gap":   {"a gap of two entries is shown", "....!........!....", "....!........!...."},
		"many": {
			"of a hot loop one sees the beginning and the end", dots(9) + hotLoop + dots(9),
			". <5> ...!!!!! <81> !!!!... <5> .",
		},
		"changes": {
			"the last changes are shown", "!" + dots(9) + "c" + dots(9) + "c" + dots(9) + "c" + dots(9),
			"!... <16> c <9> c <8> .",
		},
		"nothing": {"an empty timeline has no parts", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeline := entries(tc.timeline)
			var parts []string
			next := 0
			for _, s := range (window{around: 3, first: 2, last: 1, changes: 2, end: 2}).excerpt(timeline) {
				if s.first != next {
					t.Errorf("a part begins with entry %d, want %d", s.first, next)
				}
				next += len(s.entries)
				var part strings.Builder
				for _, e := range s.entries {
					part.WriteString(map[Lane]string{Operator: "w", Log: "i"}[e.Lane])
					if e.Lane != Operator && e.Lane != Log {
						part.WriteString(e.Text)
					}
				}
				if s.omitted {
					part.Reset()
					fmt.Fprintf(&part, "<%d>", len(s.entries))
				}
				parts = append(parts, part.String())
			}
			if diff := cmp.Diff(tc.want, strings.Join(parts, " ")); diff != "" {
				t.Errorf("%s\nparts (-want +got):\n%s", tc.reason, diff)
			}
			if next != len(timeline) {
				t.Errorf("the parts have %d entries, want %d", next, len(timeline))
			}
		})
	}
}
