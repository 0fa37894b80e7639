package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A drawing is the layout of a timeline in the page: a row for each lane, time from left to right. Horizontal positions
// are percentages, so that the browser fits them to the available width. Vertical ones are pixels.
type drawing struct {
	Height, Top, Axis int // of the whole, and the bounds of the lanes
	Lanes             []laneRow
	Cuts              []cutBand
	Ticks             []axisTick
	Faults            []percent // vertical lines through all lanes
}

type laneRow struct {
	Name        Lane
	Top, Middle int
	Marks       []mark
}

// A mark represents one entry, or several entries that are too close to be distinguished.
type mark struct {
	X        percent
	From, To percent // the extent of several entries
	Y        int
	Bad      bool
	Lane     Lane
	Entries  []int    // indexes in the timeline
	Target   string   // the link of the mark,
	Rows     []string // and all rows of the table that it represents, if there are several
	Title    string
	Label    string // beside the mark, if there is room
	Before   bool   // the label is on the left
}

type cutBand struct {
	X, Middle, Width percent
	Label            string
}

type axisTick struct {
	X     percent
	Label string
}

type percent float64

func (p percent) String() string { return fmt.Sprintf("%.2f%%", float64(p)) }

// LaneHeight and LanesHeight return the height of one lane and of all lanes.
func (*drawing) LaneHeight() int    { return laneHeight }
func (d *drawing) LanesHeight() int { return d.Axis - d.Top }

// LabelX returns the position of the label, relative to the middle of the mark.
func (m mark) LabelX() int {
	x := 12
	if m.Several() {
		x = 15
	}
	if m.Before {
		return -x
	}
	return x
}

// Several reports whether the mark represents several entries.
func (m mark) Several() bool { return len(m.Entries) > 1 }

const (
	cutLabels  = 18 // pixels above the lanes
	laneHeight = 38
	axisHeight = 24
	badAbove   = 9 // a bad entry is drawn above the others of its lane, so that neither hides the other

	markWidth   = 2.4 // minimum distance of two marks of a lane
	charWidth   = 0.8 // of a label, at the smallest width of the drawing
	lineWidth   = 0.3 // minimum distance of two vertical lines
	labelGap    = 1.8 // between a mark and its label
	leastLabel  = 8   // characters; a shorter label is useless,
	goodLabel   = 20  // and a label shorter than this is moved to the other side of the mark if that has more room
	longestMark = 60  // characters of a label
	titleLines  = 5   // entries in the title of a mark
)

// draw lays out a timeline up to the time end. It returns nil if there is nothing to draw.
func draw(timeline []Entry, end time.Duration) *drawing {
	if len(timeline) == 0 {
		return nil
	}
	times := []time.Duration{end}
	for _, e := range timeline {
		times = append(times, e.At)
	}
	axis := newScale(times)
	d := &drawing{Top: cutLabels}
	top := d.Top
	for _, lane := range lanes(timeline) {
		row := laneRow{Name: lane, Top: top, Middle: top + laneHeight/2}
		row.Marks = marks(timeline, row, axis)
		d.Lanes = append(d.Lanes, row)
		top += laneHeight
	}
	d.Axis = top
	d.Height = top + axisHeight
	for _, s := range axis.segments {
		if s.cut {
			d.Cuts = append(d.Cuts, cutBand{percent(s.x), percent(s.x + s.width/2), percent(s.width), seconds(s.to - s.from)})
		}
	}
	for _, t := range axis.ticks() {
		d.Ticks = append(d.Ticks, axisTick{percent(t.x), offset(t.at)})
	}
	d.Faults = faultLines(timeline, axis)
	return d
}

// faultLines returns the positions of injected faults, once for faults that are close together.
func faultLines(timeline []Entry, axis *scale) []percent {
	var at []percent
	for _, e := range timeline {
		if e.Lane == Fault {
			at = append(at, percent(axis.at(e.At)))
		}
	}
	slices.Sort(at)
	return slices.CompactFunc(at, func(a, b percent) bool { return math.Abs(float64(a-b)) < lineWidth })
}

// lanes returns the lanes that have entries, in the order of their documentation.
func lanes(timeline []Entry) []Lane {
	var present []Lane
	for _, e := range timeline {
		if !slices.Contains(present, e.Lane) {
			present = append(present, e.Lane)
		}
	}
	order := []Lane{Scenario, Operator, Cluster, Fault, Log, Event}
	rank := func(l Lane) int {
		if i := slices.Index(order, l); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(present, func(a, b Lane) int { return cmp.Compare(rank(a), rank(b)) })
	return present
}

// marks returns the marks of one lane from left to right, the bad ones last, so that they are drawn above the others.
func marks(timeline []Entry, row laneRow, axis *scale) []mark {
	var normal, bad []mark
	for i, e := range timeline {
		x := percent(axis.at(e.At))
		m := mark{X: x, From: x, To: x, Y: row.Middle, Bad: e.Bad, Lane: e.Lane, Entries: []int{i}}
		switch {
		case e.Lane != row.Name:
		case e.Bad:
			m.Y -= badAbove
			bad = append(bad, m)
		default:
			normal = append(normal, m)
		}
	}
	normal, bad = mergeMarks(normal), mergeMarks(bad)
	if len(bad) > 0 {
		for i := range normal {
			normal[i].Y += badAbove
		}
	}
	labelMarks(bad, timeline)
	if row.Name == Scenario || row.Name == Fault {
		labelMarks(normal, timeline)
	}
	all := slices.Concat(normal, bad)
	for i := range all {
		all[i].Title = title(timeline, all[i].Entries)
	}
	return all
}

// link links the marks to the table. The function returns the row of an entry or, if it has none, the gap that contains
// it.
func (d *drawing) link(target func(entry int) (id string, row bool)) {
	for _, lane := range d.Lanes {
		for i := range lane.Marks {
			m := &lane.Marks[i]
			m.Target, _ = target(m.Entries[0])
			for _, entry := range m.Entries {
				if id, row := target(entry); row && m.Several() {
					m.Rows = append(m.Rows, id)
				}
			}
		}
	}
}

// mergeMarks merges overlapping marks.
func mergeMarks(marks []mark) []mark {
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Compare(a.X, b.X) })
	var merged []mark
	for _, m := range marks {
		merged = append(merged, m)
		for n := len(merged); n > 1 && merged[n-1].X-merged[n-2].X < markWidth; n-- {
			a, b := merged[n-2], merged[n-1]
			a.To = max(a.To, b.To)
			a.X = (a.From + a.To) / 2
			a.Entries = append(a.Entries, b.Entries...)
			merged = append(merged[:n-2], a)
		}
	}
	return merged
}

// labelMarks adds a label to each mark of a single entry, as far as there is room up to the next mark.
func labelMarks(marks []mark, timeline []Entry) {
	free := percent(0) // left end of the free room before a mark
	for i := range marks {
		m := &marks[i]
		end := percent(100)
		if i+1 < len(marks) {
			end = marks[i+1].X - markWidth/2
		}
		text := timeline[m.Entries[0]].Text
		if slices.ContainsFunc(m.Entries, func(i int) bool { return timeline[i].Text != text }) {
			free = m.X + markWidth/2
			continue
		}
		after, before := fittingChars(end-m.X), fittingChars(m.X-free)
		if needs := min(utf8.RuneCountInString(text), goodLabel); after < needs && before > after {
			m.Before = true
			after = before
		}
		m.Label = shorten(text, after)
		free = m.X + markWidth/2
		if !m.Before && m.Label != "" {
			free = m.X + labelGap + percent(float64(utf8.RuneCountInString(m.Label))*charWidth)
		}
	}
}

// fittingChars returns the number of characters that fit.
func fittingChars(width percent) int { return int((width - labelGap) / charWidth) }

func shorten(text string, most int) string {
	most = min(most, longestMark)
	runes := []rune(text)
	switch {
	case len(runes) <= most:
		return text
	case most < leastLabel:
		return ""
	default:
		return strings.TrimRight(string(runes[:most-1]), " ") + "…"
	}
}

// title describes a mark in words, for screen readers and pages without scripts.
func title(timeline []Entry, entries []int) string {
	var b strings.Builder
	if len(entries) > 1 {
		fmt.Fprintf(&b, "%d entries of %s", len(entries), timeline[entries[0]].Lane)
	}
	for i, index := range entries {
		if i == titleLines && len(entries) > titleLines {
			fmt.Fprintf(&b, "\nand %d more", len(entries)-titleLines)
			break
		}
		e := timeline[index]
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(offset(e.At))
		if len(entries) == 1 {
			b.WriteString(" " + string(e.Lane))
		}
		if e.Bad {
			b.WriteString(" (look here)")
		}
		b.WriteString(": " + clip(e.Text))
	}
	return b.String()
}
