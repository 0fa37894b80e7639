package state_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

func TestAllowCounters(t *testing.T) {
	t.Parallel()
	one := func(status map[string]any) state.State {
		return state.State{"sites/shop": map[string]any{"status": status}}
	}
	type fields = map[string]any
	for name, test := range map[string]struct {
		before, want, got fields
		most              int64
		allowed           []string
	}{
		"a retry": {fields{}, fields{"retries": int64(1)}, fields{"retries": int64(2)}, 1, []string{"sites/shop.status.retries"}},
		"a text":  {fields{}, fields{"restarts": "1"}, fields{"restarts": "3"}, 2, []string{"sites/shop.status.restarts"}},
		"in a list": {
			fields{},
			fields{"a": []any{fields{"errors": int64(0)}}},
			fields{"a": []any{fields{"errors": int64(1)}}},
			1,
			[]string{"sites/shop.status.a[0].errors"},
		},
		"too many":    {fields{}, fields{"retries": int64(1)}, fields{"retries": int64(3)}, 1, nil},
		"less":        {fields{}, fields{"retries": int64(2)}, fields{"retries": int64(1)}, 1, nil},
		"replicas":    {fields{}, fields{"replicas": int64(1)}, fields{"replicas": int64(2)}, 1, nil},
		"missing":     {fields{}, fields{"retries": int64(1)}, fields{}, 1, nil},
		"a setting":   {fields{"retries": int64(2)}, fields{"retries": int64(1)}, fields{"retries": int64(2)}, 1, nil},
		"other texts": {fields{}, fields{"errors": "none"}, fields{"errors": "many"}, 1, nil},
	} {
		wanted := []state.State{one(test.before), one(test.want)}
		want, paths := state.AllowCounters(wanted, one(test.got), test.most, state.CountsAttempts)
		if diff := cmp.Diff(test.allowed, paths); diff != "" {
			t.Errorf("%s: allowed fields (-want +got):\n%s", name, diff)
		}
		if isEqual := state.Difference(want, one(test.got)) == ""; isEqual != (test.allowed != nil) {
			t.Errorf("%s: the states are equal: %v", name, isEqual)
		}
	}
}

func TestNamesOfCounters(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		counts *regexp.Regexp
		name   string
		want   bool
	}{
		{state.CountsStarts, "starts", true},
		{state.CountsStarts, "restartCount", true},
		{state.CountsStarts, "numberOfRestarts", true},
		{state.CountsStarts, "example.com/start-count", true},
		{state.CountsStarts, "start", false},
		{state.CountsStarts, "parts", false},
		{state.CountsStarts, "charts", false},
		{state.CountsStarts, "retries", false},
		{state.CountsAttempts, "starts", true},
		{state.CountsAttempts, "retryCount", true},
		{state.CountsAttempts, "attempt", true},
		{state.CountsAttempts, "failedAttempts", true},
		{state.CountsAttempts, "tries", true},
		{state.CountsAttempts, "errors_total", true},
		{state.CountsAttempts, "entries", false},
		{state.CountsAttempts, "failureThreshold", false},
		{state.CountsAttempts, "mirrors", false},
		{state.CountsAttempts, "retry", false},
	} {
		if got := test.counts.MatchString(test.name); got != test.want {
			t.Errorf("%v matches %q: %v, want %v", test.counts, test.name, got, test.want)
		}
	}
}
