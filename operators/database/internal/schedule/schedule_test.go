package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/operators/database/internal/schedule"
)

func parse(t *testing.T, text, zone string) *schedule.Schedule {
	t.Helper()
	s, err := schedule.Parse(text, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestNext(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		text, zone, from string
		want             []string
	}{
		"five fields": {"30 2 * * *", "UTC", "2026-01-01T00:00:00Z", []string{"2026-01-01T02:30:00Z", "2026-01-02T02:30:00Z"}},
		"a macro":     {"@hourly", "UTC", "2026-01-01T00:00:00Z", []string{"2026-01-01T01:00:00Z"}},
		"a time is not its own successor": {
			"0 2 * * *", "UTC", "2026-01-01T02:00:00Z", []string{"2026-01-02T02:00:00Z"},
		},
		"names of days and months": {"0 2 * JAN MON", "UTC", "2026-01-01T00:00:00Z", []string{"2026-01-05T02:00:00Z"}},
		"a day of leap years":      {"0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
		"a zone": {
			"0 2 * * *", "Europe/Madrid", "2026-01-01T00:00:00Z", []string{"2026-01-01T01:00:00Z", "2026-01-02T01:00:00Z"},
		},
		"a zone of half an hour": {"0 2 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", []string{"2026-01-01T20:30:00Z"}},
		"a night that is left out comes at the end of the gap": {
			"30 2 * * *", "Europe/Madrid", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		},
		"its end is a time of its own already": {
			"30 2,3 * * *", "Europe/Madrid", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"},
		},
		"from within the end of the gap": {
			"30 2 * * *", "Europe/Madrid", "2026-03-29T01:00:00Z", []string{"2026-03-30T00:30:00Z"},
		},
		"a schedule that skips the gap by itself": {
			"0 4 * * *", "Europe/Madrid", "2026-03-28T12:00:00Z", []string{"2026-03-29T02:00:00Z"},
		},
		"a night that comes twice counts once": {
			"30 2 * * *", "Europe/Madrid", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		},
		"each hour, over the gap": {
			"15 * * * *", "Europe/Madrid", "2026-03-29T00:00:00Z", []string{"2026-03-29T00:15:00Z", "2026-03-29T01:15:00Z"},
		},
		"each hour, of the hour that comes twice too": {
			"15 * * * *", "Europe/Madrid", "2026-10-25T00:00:00Z",
			[]string{"2026-10-25T00:15:00Z", "2026-10-25T01:15:00Z", "2026-10-25T02:15:00Z"},
		},
		"each of 24 hours is each hour": {
			"15 0-23 * * *", "Europe/Madrid", "2026-03-29T00:00:00Z", []string{"2026-03-29T00:15:00Z", "2026-03-29T01:15:00Z"},
		},
		"midnight that is left out": {
			"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", []string{"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			s, from := parse(t, c.text, c.zone), at(t, c.from)
			var got []string
			for range c.want {
				from = s.Next(from)
				got = append(got, from.UTC().Format(time.RFC3339))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		text, from, to, last string
		count                int64
	}{
		"none":                    {"0 2 * * *", "2026-01-01T02:00:00Z", "2026-01-02T01:59:59Z", "", 0},
		"the end counts":          {"0 2 * * *", "2026-01-01T02:00:00Z", "2026-01-02T02:00:00Z", "2026-01-02T02:00:00Z", 1},
		"half an hour of minutes": {"* * * * *", "2026-01-01T00:00:30Z", "2026-01-01T00:30:45Z", "2026-01-01T00:30:00Z", 30},
		"a clock that went back":  {"* * * * *", "2026-01-01T00:00:30Z", "2026-01-01T00:00:00Z", "", 0},
		"more than are counted": {
			"* * * * *", "2000-01-01T00:00:00Z", "2026-01-01T00:00:30Z", "2026-01-01T00:00:00Z", schedule.MaxCount,
		},
		"few in a very long time":   {"0 0 29 2 *", "2000-03-01T00:00:00Z", "2026-01-01T00:00:30Z", "2024-02-29T00:00:00Z", 6},
		"the day is not in between": {"0 0 29 2 *", "2025-03-01T00:00:00Z", "2026-01-01T00:00:30Z", "", 0},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			last, count := parse(t, c.text, "UTC").Between(at(t, c.from), at(t, c.to))
			var want time.Time
			if c.last != "" {
				want = at(t, c.last)
			}
			if !last.Equal(want) || count != c.count {
				t.Errorf("the last is %s of %d, want %s of %d", last, count, want, c.count)
			}
		})
	}
}

func TestInvalidSchedules(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct{ text, zone, want string }{
		"a minute that is none":   {"60 2 * * *", "UTC", `"60" is not valid as minute: use 0 to 59`},
		"a day that never comes":  {"0 0 31 2 *", "UTC", "no such day exists"},
		"four fields":             {"0 0 1 *", "UTC", "must have five fields"},
		"words":                   {"at two in the night", "UTC", `"at" is not valid as minute`},
		"a last day":              {"0 0 L * *", "UTC", `schedule "0 0 L * *": "L" is not valid as day of month: use 1 to 31`},
		"a step of zero":          {"*/0 * * * *", "UTC", `"*/0" is not valid as minute`},
		"a month that is none":    {"0 0 1 JUNE *", "UTC", `"JUNE" is not valid as month: use 1 to 12 or JAN to DEC`},
		"an eighth day":           {"0 0 * * 8", "UTC", `"8" is not valid as day of week: use 0 to 6`},
		"no zone":                 {"0 0 * * *", "", "timeZone"},
		"an unknown zone":         {"0 0 * * *", "Europe/Atlantis", "timeZone"},
		"the zone of the node":    {"0 0 * * *", "Local", "timeZone"},
		"a path":                  {"0 0 * * *", "../../etc/passwd", "timeZone"},
		"a zone in the schedule":  {"TZ=UTC 0 0 * * *", "UTC", "set timeZone"},
		"an interval":             {"@every 1h", "UTC", "five fields"},
		"an end before the begin": {"5-1 * * * *", "UTC", `"5-1" is not valid as minute`},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			if _, err := schedule.Parse(c.text, c.zone); err == nil || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "strconv") {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
