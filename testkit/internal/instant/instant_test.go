package instant_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/instant"
)

var now = time.Date(2026, 11, 22, 4, 5, 6, 0, time.UTC)

func TestIs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		v    any
		want bool
	}{
		"RFC 3339":       {now.Format(time.RFC3339), true},
		"with fractions": {now.Format(time.RFC3339Nano), true},
		"a date alone":   {"2026-11-22", false},
		"seconds":        {now.Unix() + 3600, true},
		"milliseconds":   {now.UnixMilli(), true},
		"microseconds":   {now.UnixMicro(), true},
		"nanoseconds":    {now.UnixNano(), true},
		"fractions":      {float64(now.Unix()) + .25, true},
		"two days later": {now.Add(48 * time.Hour).Unix(), false},
		"zero":           {int64(0), false},
		"a size":         {int64(1 << 30), false},
		"true":           {true, false},
	} {
		if got := instant.Is(test.v, now); got != test.want {
			t.Errorf("%s: %v is a time near now: %v, want %v", name, test.v, got, test.want)
		}
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	seconds := strconv.FormatInt(now.Unix(), 10)
	for text, want := range map[string]string{
		seconds:                        "$TIME",
		"restarted " + seconds + ".25": "restarted $TIME",
		"at=" + strconv.FormatInt(now.UnixMilli(), 10): "at=$TIME",
		"since " + now.Format(time.RFC3339):            "since $TIME",
		"a " + now.Format(time.RFC3339Nano):            "a $TIME",
		now.Format(time.RFC1123):                       "$TIME",
		now.String():                                   "$TIME",
		"2026-11-22T06:05:06+02:00, ok":                "$TIME, ok",
		"2026-11-22 04:05:06,123 INFO ready":           "$TIME INFO ready",
		"20261122-040506":                              "$TIME",
		"v20261122040506":                              "v20261122040506", // a letter is next to it
		"a" + seconds:                                  "a" + seconds,
		"2020-01-01T00:00:00Z":                         "2020-01-01T00:00:00Z", // not of the run
		"1234567890":                                   "1234567890",
		"10.96.0.1":                                    "10.96.0.1",
		"web:1.2.3":                                    "web:1.2.3",
		"":                                             "",
		"7" + seconds:                                  "7" + seconds,
		seconds + " and " + seconds:                    "$TIME and $TIME",
	} {
		if got := instant.Mask(text, now); got != want {
			t.Errorf("Mask(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"backup-" + strconv.FormatInt(now.Unix(), 10): "backup-", "logs-20261122-040506-full": "logs-",
		"web-1234567890": "", "web": "",
	} {
		if got, ok := instant.Prefix(name, now); got != want || ok != (want != "") {
			t.Errorf("Prefix(%q) = %q, %v, want %q", name, got, ok, want)
		}
	}
}
