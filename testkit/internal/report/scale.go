package report

import (
	"cmp"
	"slices"
	"time"
)

// A scale maps times to an axis of 0 to 100. It is linear between cuts. An operator acts for milliseconds and then
// waits for seconds, so that a linear axis would show nothing but the waiting.
type scale struct {
	segments []axisSegment
	rate     float64 // units of the axis per nanosecond, equal between all cuts
}

type axisSegment struct {
	from, to time.Duration
	x, width float64
	cut      bool
}

// maxDuration is the longest duration of an axis. It leaves room for the arithmetic.
const maxDuration = time.Duration(1) << 60

const (
	axisStart   = 2.5 // half a label must fit beside the first and the last mark
	axisEnd     = 97.5
	cutWidth    = 5.0
	maxCuts     = 6
	minCutWidth = 12.0 // a gap is cut if it would be wider than this,
	minGapRatio = 8    // and so many times longer than the median gap
)

// newScale returns an axis for some times. It begins at 0.
func newScale(times []time.Duration) *scale {
	times = append([]time.Duration{0}, times...)
	for i, t := range times {
		times[i] = min(max(t, 0), maxDuration)
	}
	slices.Sort(times)
	times = slices.Compact(times)
	cuts := longGaps(times)
	linear := times[len(times)-1] - times[0]
	for _, i := range cuts {
		linear -= times[i+1] - times[i]
	}
	s := &scale{}
	if linear > 0 {
		s.rate = (axisEnd - axisStart - cutWidth*float64(len(cuts))) / float64(linear)
	}
	s.build(times, cuts)
	return s
}

// longGaps returns, in order, the indexes of the times after which the axis is cut.
func longGaps(times []time.Duration) []int {
	if len(times) < 3 {
		return nil
	}
	order := make([]int, len(times)-1)
	for i := range order {
		order[i] = i
	}
	gap := func(i int) time.Duration { return times[i+1] - times[i] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(gap(b), gap(a)) })
	typical := gap(order[len(order)/2])
	rest := times[len(times)-1] - times[0]
	var cuts []int
	for _, i := range order {
		width := float64(gap(i)) / float64(rest) * (axisEnd - axisStart - cutWidth*float64(len(cuts)))
		if len(cuts) == maxCuts || width < minCutWidth || gap(i) < minGapRatio*typical {
			break
		}
		cuts = append(cuts, i)
		rest -= gap(i)
	}
	slices.Sort(cuts)
	return cuts
}

func (s *scale) build(times []time.Duration, cuts []int) {
	x, from := axisStart, times[0]
	add := func(to time.Duration, cut bool) {
		width := float64(to-from) * s.rate
		if cut {
			width = cutWidth
		}
		s.segments = append(s.segments, axisSegment{from: from, to: to, x: x, width: width, cut: cut})
		x, from = x+width, to
	}
	for _, i := range cuts {
		add(times[i], false)
		add(times[i+1], true)
	}
	add(times[len(times)-1], false)
}

// at returns the position of a time on the axis.
func (s *scale) at(t time.Duration) float64 {
	t = min(max(t, 0), maxDuration)
	for _, st := range s.segments {
		if t <= st.to {
			if st.to == st.from || t < st.from {
				return st.x
			}
			return st.x + st.width*float64(t-st.from)/float64(st.to-st.from)
		}
	}
	last := s.segments[len(s.segments)-1]
	return last.x + last.width
}

// A tick is a labeled time of the axis.
type tick struct {
	at time.Duration
	x  float64
}

const (
	stepWidth = 9.0 // minimum distance of round times,
	tickWidth = 6.0 // and of any two ticks
)

// ticks returns the times at which the axis continues after a cut, and round times between them.
func (s *scale) ticks() []tick {
	step := s.step()
	var ticks []tick
	for _, st := range s.segments {
		if st.cut {
			continue
		}
		last := tick{st.from, st.x}
		ticks = append(ticks, last)
		for t := st.from.Truncate(step) + step; t <= st.to; t += step {
			if x := s.at(t); x-last.x >= tickWidth {
				last = tick{t, x}
				ticks = append(ticks, last)
			}
		}
	}
	return ticks
}

// step returns the distance of round times: 1, 2 or 5 times a power of ten, at least a millisecond.
func (s *scale) step() time.Duration {
	for unit := time.Millisecond; unit < maxDuration; unit *= 10 {
		for _, step := range []time.Duration{unit, 2 * unit, 5 * unit} {
			if float64(step)*s.rate >= stepWidth {
				return step
			}
		}
	}
	return maxDuration
}
