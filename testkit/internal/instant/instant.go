// Package instant recognizes the moments of a run in values and texts: times of at most a day before or after now, in the
// forms in which operators write them.
package instant

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Placeholder is what [Mask] writes instead of a time.
const Placeholder = "$TIME"

// near is the maximum distance from now. It covers all time zones.
const near = 24 * time.Hour

// Is reports whether v is near now: RFC 3339, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970.
func Is(v any, now time.Time) bool {
	switch v := v.(type) {
	case string:
		t, err := time.Parse(time.RFC3339Nano, v)
		return err == nil && isNear(t, now)
	case int64:
		return isEpoch(float64(v), now)
	case float64:
		return isEpoch(v, now)
	default:
		return false
	}
}

func isNear(t, now time.Time) bool { return now.Sub(t).Abs() < near }

// isEpoch reports whether a number, in any unit, is a time near now.
func isEpoch(v float64, now time.Time) bool {
	const thousand = 1000
	seconds := float64(now.Unix())
	for range 4 { // seconds, milliseconds, microseconds, nanoseconds
		if d := v - seconds; d < near.Seconds() && d > -near.Seconds() {
			return true
		}
		v /= thousand
	}
	return false
}

// timeText matches what may be a time in a text: a date with a time of day, with or without separators, or a number since
// 1970, which may have a fraction.
var timeText = regexp.MustCompile(`\d{4}-\d\d-\d\d[T _-]\d\d[:-]?\d\d[:-]?\d\d` + fraction + zone + `|` +
	`\d{8}[T_-]?\d{6}(?:Z|\b)|` +
	`\d{10,19}(?:\.\d+)?`)

const (
	fraction = `(?:[.,]\d+)?`
	// As time.Time.String writes it.
	zone = `(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?(?: (?:UTC|GMT|[A-Z]{1,3}ST|[A-Z]{2}T))?(?: m=[+-][\d.]+)?`
)

// wholeTexts are layouts of times that are recognized only if a text has nothing else.
var wholeTexts = []string{
	time.ANSIC, time.UnixDate, time.RubyDate, time.RFC822, time.RFC822Z, time.RFC850, time.RFC1123, time.RFC1123Z,
}

// Mask replaces the times near now in a text by [Placeholder].
func Mask(text string, now time.Time) string {
	if now.IsZero() || !mayHaveTime(text) {
		return text
	}
	for _, layout := range wholeTexts {
		if t, err := time.Parse(layout, text); err == nil && isNear(t, now) {
			return Placeholder
		}
	}
	var b strings.Builder
	from := 0
	for _, at := range find(text, now) {
		b.WriteString(text[from:at[0]] + Placeholder)
		from = at[1]
	}
	return b.String() + text[from:]
}

// Prefix returns the part of a name before a time near now, and false if the name has none.
func Prefix(name string, now time.Time) (string, bool) {
	if !mayHaveTime(name) {
		return "", false
	}
	for _, at := range find(name, now) {
		return name[:at[0]], true
	}
	return "", false
}

// mayHaveTime reports whether a text has as many digits as the shortest form of a time. It saves most searches.
func mayHaveTime(text string) bool {
	const fewest = len("061126") + len("0102") // RFC 822 has two digits of a year, and no seconds
	if len(text) < fewest {
		return false
	}
	digits := 0
	for i := range len(text) {
		if isDigit(text[i]) {
			digits++
		}
	}
	return digits >= fewest
}

// find returns the bounds of the times near now. Neither a letter nor a digit is next to them: a hexadecimal number has no
// time.
func find(text string, now time.Time) [][]int {
	var all [][]int
	for _, at := range timeText.FindAllStringIndex(text, -1) {
		before, after := at[0] > 0 && isAlphanumeric(text[at[0]-1]), at[1] < len(text) && isAlphanumeric(text[at[1]])
		if !before && !after && isTime(text[at[0]:at[1]], now) {
			all = append(all, at)
		}
	}
	return all
}

// isTime reports whether a match of timeText is near now.
func isTime(match string, now time.Time) bool {
	if v, err := strconv.ParseFloat(match, 64); err == nil && isEpoch(v, now) {
		return true
	}
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, match)
	const layout = "20060102150405"
	if len(digits) < len(layout) {
		return false
	}
	t, err := time.Parse(layout, digits[:len(layout)])
	return err == nil && isNear(t, now)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlphanumeric(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
