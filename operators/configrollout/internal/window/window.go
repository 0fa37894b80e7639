// Package window says when a rollout may start: a window opens by a cron expression and stays open for a while.
package window

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// A Window opens again and again. It is immutable.
type Window struct {
	schedule cron.Schedule
	length   time.Duration
	location *time.Location
}

// A window may be open for a week at most: one that is longer is meant otherwise.
const longest = 7 * 24 * time.Hour

// Parse reads "<cron>;<duration>;<time zone>", such as "0 22 * * 1-5;2h;Europe/Berlin": minute, hour, day of the month,
// month and day of the week at which it opens, and for how long. The time zone may be left out and is UTC then.
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

// Opens returns when the window is open next: now, if it is. A nil window is always open.
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
