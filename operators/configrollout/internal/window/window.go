// Package window implements time windows for rollouts: a window opens by a cron expression and stays open for a duration.
package window

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Window is a recurring time window. It is immutable.
type Window struct {
	schedule cron.Schedule
	length   time.Duration
	location *time.Location
}

// The maximal length of a window; a longer one is probably a mistake.
const longest = 7 * 24 * time.Hour

// Parse parses "<cron>;<duration>;<time zone>", such as "0 22 * * 1-5;2h;Europe/Berlin". The cron expression has minute,
// hour, day of month, month and day of week. The time zone is optional and defaults to UTC.
func Parse(text string) (*Window, error) {
	parts := strings.Split(text, ";")
	if len(parts) < 2 || len(parts) > 3 {
		return nil, errors.New(`it has the form "<cron>;<duration>;<time zone>", such as "0 22 * * 1-5;2h;Europe/Berlin"`)
	}
	expression := strings.TrimSpace(parts[0])
	if strings.Contains(expression, "=") {
		return nil, errors.New("the time zone comes last, after the duration")
	}
	fields := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	schedule, err := fields.Parse(expression)
	if err != nil {
		return nil, fmt.Errorf("%q is no cron expression: %w", expression, err)
	}
	w := &Window{schedule: schedule, location: time.UTC}
	w.length, err = time.ParseDuration(strings.TrimSpace(parts[1]))
	if err != nil || w.length < time.Minute || w.length > longest {
		return nil, fmt.Errorf("%q is no duration from 1m to 168h, such as 2h", parts[1])
	}
	if len(parts) == 3 {
		if w.location, err = time.LoadLocation(strings.TrimSpace(parts[2])); err != nil {
			return nil, fmt.Errorf("%q is no time zone, such as Europe/Berlin", parts[2])
		}
	}
	if w.schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, w.location)).IsZero() {
		return nil, fmt.Errorf("%q is a date that never comes", expression)
	}
	return w, nil
}

// Opens returns the time when the window is next open: now if it is open. A nil window is always open.
func (w *Window) Opens(now time.Time) time.Time {
	if w == nil {
		return now
	}
	opened := w.schedule.Next(now.Add(-w.length).In(w.location))
	if opened.After(now) {
		return opened
	}
	return now
}
