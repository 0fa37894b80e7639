// Package schedule says when something is due that is to happen again and again. It is about times alone: what happens then,
// and what became of it, is its users' business.
package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // an image need not have any

	"github.com/robfig/cron/v3"
)

// Schedule is times of a clock on the wall. Where it is turned forward, a time of some hours that is left out comes at the
// end of the gap, so that a day is never without; and where it is turned back, such a time comes once. A schedule of each
// hour or minute goes on by the clock that nobody turns.
type Schedule struct {
	spec *cron.SpecSchedule
	wall *cron.SpecSchedule // the same, of a clock that is never turned
}

// Parse reads a schedule in the format of cron: five fields, or a macro such as @hourly. The zone is the name of a time zone
// such as Europe/Madrid. The error says which of the two is wrong, and how.
func Parse(text, zone string) (*Schedule, error) {
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "" || zone == "Local" { // which would be that of the operator's node
		return nil, fmt.Errorf("timeZone %q is not known: name one such as UTC or Europe/Madrid", zone)
	}
	if strings.Contains(text, "TZ=") {
		return nil, fmt.Errorf("schedule %q has a time zone: set timeZone", text)
	}
	parsed, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", text, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok { // such as @every, which has no times
		return nil, fmt.Errorf("schedule %q: use five fields or a macro such as @hourly", text)
	}
	wall := *spec
	spec.Location, wall.Location = location, time.UTC
	s := &Schedule{spec: spec, wall: &wall}
	if s.Next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() { // which has a 29th of February soon
		return nil, fmt.Errorf("schedule %q: %w", text, errNever)
	}
	return s, nil
}

var errNever = errors.New("there is no such day")

// everyHour are the hours of a schedule of each hour.
const everyHour = 1<<24 - 1

// Next returns the first time after t.
func (s *Schedule) Next(t time.Time) time.Time {
	t = t.In(s.spec.Location)
	for {
		next := s.spec.Next(t)
		if next.IsZero() || s.spec.Hour&everyHour == everyHour {
			return next
		}
		if left := s.leftOut(t, next); !left.IsZero() {
			return left
		}
		if !second(next) {
			return next
		}
		t = next
	}
}

// leftOut returns the end of the first gap between two times in which there was to be one, or zero.
func (s *Schedule) leftOut(from, to time.Time) time.Time {
	for _, end := from.ZoneBounds(); !end.IsZero() && end.Before(to); _, end = end.ZoneBounds() {
		before := offset(end.Add(-time.Second))
		gap, begin := offset(end)-before, end.Add(before).UTC() // what the clock showed, as if it were never turned
		if gap > 0 && s.wall.Next(begin.Add(-time.Second)).Before(begin.Add(gap)) {
			return end
		}
	}
	return time.Time{}
}

// second reports whether the clock showed that time before, because it was turned back since.
func second(t time.Time) bool {
	start, _ := t.ZoneBounds()
	if start.IsZero() {
		return false
	}
	back := offset(start.Add(-time.Second)) - offset(start)
	return back > 0 && t.Sub(start) < back
}

func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// Between returns the last time after from that is not after to, and how many there are; zero if there is none. Of more
// than [Most] it counts no more than those.
func (s *Schedule) Between(from, to time.Time) (last time.Time, count int64) {
	for at := s.Next(from); !at.IsZero() && !at.After(to); at = s.Next(at) {
		last = at
		if count++; count == Most {
			return s.latest(last, to), count
		}
	}
	return last, count
}

// Most is how many times are counted: those of each minute in two years.
const Most = 1 << 20

// latest returns the last time that is not after to, if one is known.
func (s *Schedule) latest(known, to time.Time) time.Time {
	for back := time.Minute; to.Add(-back).After(known); back *= 2 {
		if at := s.Next(to.Add(-back)); !at.After(to) {
			known = at
			break
		}
	}
	for at := s.Next(known); !at.After(to); at = s.Next(at) {
		known = at
	}
	return known
}
