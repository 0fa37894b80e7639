package annotation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/window"
)

const quiet = 5 * time.Second

func TestParse(t *testing.T) {
	t.Parallel()
	got, invalid := annotation.Parse(map[string]string{
		"rollout.homeostat.dev/enabled":      " true",
		"rollout.homeostat.dev/configmaps":   "a, b,",
		"rollout.homeostat.dev/secrets":      "s",
		"rollout.homeostat.dev/ignore":       "c,d",
		"rollout.homeostat.dev/hot-reload":   "e",
		"rollout.homeostat.dev/quiet-period": "10s",
		"rollout.homeostat.dev/window":       "0 22 * * 1-5;2h;Europe/Berlin",
		"rollout.homeostat.dev/on-failure":   "Rollback",
		"rollout.homeostat.dev/dry-run":      "true",
		"rollout.homeostat.dev/priority":     "-3",
		"example.com/enabled":                "nonsense",
	}, quiet)
	want := annotation.Settings{
		Enabled: new(true), ConfigMaps: []string{"a", "b"}, Secrets: []string{"s"}, Ignore: []string{"c", "d"},
		HotReload: []string{"e"}, Quiet: 10 * time.Second, OnFailure: annotation.Rollback, DryRun: true, Priority: -3,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(&window.Window{})); diff != "" || got.Window == nil || invalid != nil {
		t.Errorf("window %v, invalid %v, -want +got:\n%s", got.Window, invalid, diff)
	}
}

// Invalid values have the default and are reported.
func TestParseInvalid(t *testing.T) {
	t.Parallel()
	defaults, _ := annotation.Parse(nil, quiet)
	for name, values := range map[string][]string{
		"enabled":      {"yes", "", "True"},
		"configmaps":   {"other/a", "a b", "a-*"},
		"secrets":      {"a,other/b"},
		"ignore":       {"*", strings.Repeat("a,", 2049)},
		"hot-reload":   {"a/b"},
		"quiet-period": {"10", "-1s", "soon", "9999h"},
		"window":       {"22:00", "0 22 * * *;2h;Nowhere"},
		"on-failure":   {"hold", "Retry"},
		"dry-run":      {"1"},
		"priority":     {"high", "1.5", "1001", "-1001", "9223372036854775807"},
		"quite-period": {"10s"},
		"default":      {"enabled"}, // it is a label of namespaces
	} {
		for _, value := range values {
			got, invalid := annotation.Parse(map[string]string{annotation.Prefix + name: value}, quiet)
			if diff := cmp.Diff(defaults, got); diff != "" {
				t.Errorf("%s: %q does not lead to the default:\n%s", name, value, diff)
			}
			if len(invalid) != 1 || invalid[0].Name != annotation.Prefix+name || invalid[0].Err == nil {
				t.Errorf("%s: %q is reported as %v", name, value, invalid)
			}
		}
	}
}

func TestIgnored(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"true": true, "true\n": true, "false": false, "TRUE": true, "": true, "no": true} {
		got, err := annotation.Ignored(map[string]string{annotation.Ignore: value})
		if readable := strings.TrimSpace(value) == "true" || value == "false"; got != want || (err == nil) != readable {
			t.Errorf("%q: ignored: %v, %v", value, got, err)
		}
	}
	if got, err := annotation.Ignored(nil); got || err != nil {
		t.Errorf("without the annotation: %v, %v", got, err)
	}
}

func TestDefault(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"enabled": true, "disabled": false} {
		got, invalid := annotation.Default(map[string]string{annotation.DefaultLabel: value})
		if got == nil || *got != want || invalid != nil {
			t.Errorf("%s: %v, %v", value, got, invalid)
		}
	}
	if got, invalid := annotation.Default(nil); got != nil || invalid != nil {
		t.Errorf("without the label: %v, %v", got, invalid)
	}
	if got, invalid := annotation.Default(map[string]string{annotation.DefaultLabel: "yes"}); got != nil || invalid == nil {
		t.Errorf("with another value: %v, %v", got, invalid)
	}
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 1, 2, 3, 456e6, time.UTC)
	want := annotation.Record{
		Observed: "sha256:aa", Sources: map[string]string{"1": "2", "3": "4"}, References: "5", Template: annotation.None,
		Pending: "sha256:bb", Since: now, Changed: now.Add(time.Second), State: "Paused: it is",
		Last: &annotation.Rollout{
			Time: now, Sources: []string{"ConfigMap/a"}, From: "sha256:00", To: "sha256:aa", Before: "sha256:00",
			Result: annotation.Failed, Reverts: 2, Updated: 3, Progressed: now,
		},
	}
	written := map[string]string{}
	for name, value := range want.Changes(nil) {
		written[name] = *value
	}
	got := annotation.ReadRecord(written)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if again := got.Changes(written); len(again) != 0 {
		t.Errorf("what is written would be written again: %v", again)
	}
	for name, value := range (annotation.Record{}).Changes(written) {
		if value != nil {
			t.Errorf("%s is not removed for an empty record", name)
		}
		delete(written, name)
	}
	if len(written) != 0 {
		t.Errorf("these are not removed for an empty record: %v", written)
	}
}

// Invalid values in the operator's own annotations are ignored.
func TestMalformedRecord(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		annotation.LastRollout: "{", annotation.PendingSince: "yesterday", annotation.ObservedSources: "no sources,=,x",
	} {
		got := annotation.ReadRecord(map[string]string{name: value})
		if got.Last != nil || !got.Since.IsZero() || len(got.Sources) > 1 {
			t.Errorf("%s %q is read as %+v", name, value, got)
		}
	}
}

// Values that no version of the operator writes are read as something harmless.
func TestForgedRecord(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	for name, value := range map[string]string{
		annotation.ObservedDigest: long, annotation.ObservedTemplate: long, annotation.PendingDigest: long, annotation.State: long,
		annotation.ObservedSources: "a," + strings.Repeat("1=2,", 2000), annotation.LastRollout: `{"toDigest":"` + long + `"}`,
	} {
		if diff := cmp.Diff(annotation.Record{}, annotation.ReadRecord(map[string]string{name: value})); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
	}
	last := annotation.ReadRecord(map[string]string{
		annotation.LastRollout: `{"toDigest":"d","reverts":-5,"updated":-1,"more":-1}`,
	}).Last
	if last.Reverts != 0 || last.Updated != 0 || last.More != 0 {
		t.Errorf("negative counts are read as %+v", last)
	}
	last = annotation.ReadRecord(map[string]string{
		annotation.LastRollout: `{"toDigest":"d","reverts":9223372036854775807}`,
	}).Last
	if last.Reverts != 1000 {
		t.Errorf("a great count is read as %d", last.Reverts)
	}
}

func TestLastRolloutStaysShort(t *testing.T) {
	t.Parallel()
	last := &annotation.Rollout{To: "sha256:aa"}
	for range 50 {
		last.Sources = append(last.Sources, "ConfigMap/"+strings.Repeat("a", 200))
	}
	text := *annotation.Record{Last: last}.Changes(nil)[annotation.LastRollout]
	got := annotation.ReadRecord(map[string]string{annotation.LastRollout: text}).Last
	if len(text) > 1024 || len(got.Sources) != 4 || got.To != "sha256:aa" {
		t.Errorf("it has %d bytes, %d sources", len(text), len(got.Sources))
	}
}
