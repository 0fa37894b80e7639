package window_test

import (
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/window"
)

func TestOpens(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		window, now, want, reason string
	}{
		"open": {
			"0 22 * * 1-5;2h;UTC", "2026-11-23T22:30:00Z", "2026-11-23T22:30:00Z", "it is Monday, half an hour after it opened",
		},
		"at its beginning": {"0 22 * * 1-5;2h", "2026-11-23T22:00:00Z", "2026-11-23T22:00:00Z", "the beginning belongs to it"},
		"at its end":       {"0 22 * * 1-5;2h", "2026-11-24T00:00:00Z", "2026-11-24T22:00:00Z", "the end does not"},
		"past midnight":    {"0 22 * * 1-5;4h", "2026-11-24T01:59:00Z", "2026-11-24T01:59:00Z", "it began on the day before"},
		"weekend":          {"0 22 * * 1-5;2h", "2026-11-21T23:00:00Z", "2026-11-23T22:00:00Z", "it is Saturday"},
		"another zone": {
			"0 22 * * *;2h;Europe/Berlin", "2026-11-23T20:59:00Z", "2026-11-23T21:00:00Z", "Berlin is an hour ahead in winter",
		},
		"another zone in summer": {
			"0 22 * * *;2h;Europe/Berlin", "2026-07-23T20:30:00Z", "2026-07-23T20:30:00Z", "and two in summer",
		},
		"the hour that is skipped": {
			"30 2 * * *;10m;Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z", "there is no half past two on 29 March",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, err := window.Parse(tc.window)
			if err != nil {
				t.Fatal(err)
			}
			now, err := time.Parse(time.RFC3339, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.Opens(now).UTC().Format(time.RFC3339); got != tc.want {
				t.Errorf("%s: at %s it opens at %s, want %s", tc.reason, tc.now, got, tc.want)
			}
		})
	}
}

func TestNoWindowIsAlwaysOpen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 1, 2, 3, 4, time.UTC)
	if got := (*window.Window)(nil).Opens(now); got != now {
		t.Errorf("it opens at %v, want %v", got, now)
	}
}

func TestInvalidWindow(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "22:00", "0 22 * * 1-5", "0 22 * *;2h", "0 22 * * 1-5;2h;Europe/Berlin;more", "61 22 * * *;2h",
		"0 22 * * 1-5;two hours",
		"0 22 * * 1-5;0s", "0 22 * * 1-5;-1h", "0 22 * * 1-5;1000h", "0 22 * * 1-5;2h;Berlin", "TZ=UTC 0 22 * * 1-5;2h", "TZ=0;2h",
		"CRON_TZ=;2h", "@daily;2h", "@every 1h;10m", "0 0 30 2 *;2h",
	} {
		if w, err := window.Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, w)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0 22 * * 1-5;2h;Europe/Berlin")
	f.Add("TZ=;1m")
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := window.Parse(text)
		if err != nil {
			return
		}
		if opens := w.Opens(now); opens.Before(now) {
			t.Errorf("%q opens at %v, before %v", text, opens, now)
		}
	})
}
