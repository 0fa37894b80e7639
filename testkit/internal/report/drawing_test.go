package report

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func drawings(t *testing.T) map[string]Run {
	t.Helper()
	data, err := os.ReadFile("testdata/website.json")
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	runs := map[string]Run{}
	for _, run := range r.Runs {
		if len(run.Timeline) > 0 {
			runs[run.Name] = run
		}
	}
	return runs
}

func TestDrawingHasEveryEntryOnce(t *testing.T) {
	t.Parallel()
	for name, run := range drawings(t) {
		var got []int
		for _, lane := range draw(run.Timeline, run.Duration).Lanes {
			for _, m := range lane.Marks {
				for _, i := range m.Entries {
					if e := run.Timeline[i]; e.Lane != lane.Name || e.Bad != m.Bad {
						t.Errorf("%s: entry %+v is in lane %s, bad: %v", name, e, lane.Name, m.Bad)
					}
				}
				got = append(got, m.Entries...)
			}
		}
		want := make([]int, len(run.Timeline))
		for i := range want {
			want[i] = i
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: entries in the drawing (-want +got):\n%s", name, diff)
		}
	}
}

func TestMarksAndLabelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	for name, run := range drawings(t) {
		for _, lane := range draw(run.Timeline, run.Duration).Lanes {
			for i, m := range lane.Marks {
				left, right := extent(m)
				if left < 0 || right > 100 {
					t.Errorf("%s: mark %q reaches from %s to %s", name, m.Title, left, right)
				}
				if i == 0 || lane.Marks[i-1].Bad != m.Bad {
					continue
				}
				before := lane.Marks[i-1]
				if _, end := extent(before); m.X-before.X < markWidth || end > left {
					t.Errorf("%s: mark %q overlaps %q", name, m.Title, before.Title)
				}
			}
		}
	}
}

// extent returns the bounds of a mark and its label. The mark has no margin to its label.
func extent(m mark) (left, right percent) {
	width := percent(float64(utf8.RuneCountInString(m.Label)) * charWidth)
	switch {
	case width > 0 && m.Before:
		return m.X - labelGap - width, m.X
	case width > 0:
		return m.X, m.X + labelGap + width
	default:
		return m.X, m.X
	}
}

func TestDrawing(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	d := draw([]Entry{
		{At: 0, Lane: Scenario, Text: "create"},
		{At: 10 * ms, Lane: "shadow", Text: "unknown lanes come last"},
		{At: 20 * ms, Lane: Fault, Text: "killed"},
		{At: 20 * ms, Lane: Fault, Text: "killed twice"},
		{At: 30 * ms, Lane: Fault, Text: "killed again"},
		{At: 30 * ms, Lane: Operator, Text: "create", Bad: true},
		{At: 40 * ms, Lane: Operator, Text: "get"},
	}, 40*ms)
	var lanes []Lane
	for _, l := range d.Lanes {
		lanes = append(lanes, l.Name)
	}
	if diff := cmp.Diff([]Lane{Scenario, Operator, Fault, "shadow"}, lanes); diff != "" {
		t.Errorf("lanes from top to bottom (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]percent{50, 73.75}, d.Faults); diff != "" {
		t.Errorf("faults, one line for simultaneous ones (-want +got):\n%s", diff)
	}
	bad, good := d.Lanes[1].Marks[1], d.Lanes[1].Marks[0]
	if !bad.Bad || good.Bad || bad.Y >= good.Y {
		t.Errorf("the bad mark is drawn last and above the other: %+v, %+v", bad, good)
	}
	if got, want := d.Lanes[2].Marks[0].Title, "2 entries of fault\n0.020s: killed\n0.020s: killed twice"; got != want {
		t.Errorf("the title of a mark of two is %q, want %q", got, want)
	}
	if draw(nil, time.Second) != nil {
		t.Error("an empty timeline has a drawing")
	}
}
