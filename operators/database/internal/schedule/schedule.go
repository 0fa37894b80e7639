// Package schedule computes the times of a cron schedule in a time zone.
package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // images need not contain the time zone database

	"github.com/robfig/cron/v3"
)

// Schedule is a list of wall clock times. If daylight saving time skips a scheduled time, it is moved to the end of the gap,
// so that no day is left out. If the clock shows a time twice, only the first occurrence counts. A schedule that applies to
// every hour follows elapsed time instead.
type Schedule struct {
	spec    *cron.SpecSchedule
	utcSpec *cron.SpecSchedule // the same schedule in UTC
}

// Parse parses a cron schedule: five fields, or a macro such as @hourly. The zone is the name of a time zone such as
// Europe/Madrid. An error begins with the name of the invalid field, schedule or timeZone, and names the allowed values.
func Parse(text, zone string) (*Schedule, error) {
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "" || zone == "Local" { // Local would depend on the operator's node
		return nil, fmt.Errorf("timeZone %q is not known: use the name of a time zone, such as UTC or Europe/Madrid", zone)
	}
	if strings.Contains(text, "TZ=") {
		return nil, fmt.Errorf("schedule %q has a time zone: set timeZone instead", text)
	}
	parsed, err := cron.ParseStandard(text)
	if err != nil {
		return nil, invalid(text)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok { // for example @every, without wall clock times
		return nil, fmt.Errorf("schedule %q %w", text, errFields)
	}
	utcSpec := *spec
	spec.Location = location
	utcSpec.Location = time.UTC
	s := &Schedule{spec: spec, utcSpec: &utcSpec}
	if s.Next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() { // includes February 29
		return nil, fmt.Errorf("schedule %q %w", text, errNoSuchDay)
	}
	return s, nil
}

var (
	errNoSuchDay = errors.New("has no time: no such day exists in any year")
	errFields    = errors.New("must have five fields (minute, hour, day of the month, month and day of the week), or be " +
		"a macro such as @hourly")
)

// fields are the five fields of a schedule with their values.
var fields = []struct{ name, values string }{
	{"minute", "0 to 59"},
	{"hour", "0 to 23"},
	{"day of month", "1 to 31"},
	{"month", "1 to 12 or JAN to DEC"},
	{"day of week", "0 to 6 or SUN to SAT"},
}

// invalid returns the error of an invalid schedule, with its first invalid field.
func invalid(text string) error {
	given := strings.Fields(text)
	if len(given) != len(fields) {
		return fmt.Errorf("schedule %q %w", text, errFields)
	}
	for i, field := range fields {
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = given[i]
		if _, err := cron.ParseStandard(strings.Join(alone, " ")); err != nil {
			return fmt.Errorf("schedule %q: %q is not valid as %s: use %s, *, or lists, ranges and steps of them", text, given[i],
				field.name, field.values)
		}
	}
	return fmt.Errorf("schedule %q %w", text, errFields)
}

// everyHour is the bit mask of a schedule that applies to every hour.
const everyHour = 1<<24 - 1

// Next returns the first scheduled time after t, or zero.
func (s *Schedule) Next(t time.Time) time.Time {
	t = t.In(s.spec.Location)
	for {
		next := s.spec.Next(t)
		if next.IsZero() || s.spec.Hour&everyHour == everyHour {
			return next
		}
		if left := s.skippedByGap(t, next); !left.IsZero() {
			return left
		}
		if !repeated(next) {
			return next
		}
		t = next
	}
}

// skippedByGap returns the end of the first clock change between two times that skips a scheduled time, or zero.
func (s *Schedule) skippedByGap(from, to time.Time) time.Time {
	for _, end := from.ZoneBounds(); !end.IsZero() && end.Before(to); _, end = end.ZoneBounds() {
		before := offset(end.Add(-time.Second))
		gap, begin := offset(end)-before, end.Add(before).UTC() // wall clock time, as if in UTC
		if gap > 0 && s.utcSpec.Next(begin.Add(-time.Second)).Before(begin.Add(gap)) {
			return end
		}
	}
	return time.Time{}
}

// repeated reports whether the clock showed the time before, because it was set back.
func repeated(t time.Time) bool {
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

// Between returns the last scheduled time in (from, to] and the number of such times; zero if there is none. It counts up to
// [MaxCount] times.
func (s *Schedule) Between(from, to time.Time) (last time.Time, count int64) {
	for at := s.Next(from); !at.IsZero() && !at.After(to); at = s.Next(at) {
		last = at
		if count++; count == MaxCount {
			return s.latest(last, to), count
		}
	}
	return last, count
}

// MaxCount limits the count of [Schedule.Between]. It equals two years of minutes.
const MaxCount = 1 << 20

// latest returns the last scheduled time that is not after to. The argument known is an earlier scheduled time.
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
