package quiescence

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
)

func TestChangeTracker(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)
	status := func(version string, fields map[string]any) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"name": "a", "uid": "1", "resourceVersion": version},
			"spec":     map[string]any{"since": "2020-01-01T00:00:00Z"}, "status": fields,
		}
	}
	said := func(at time.Time) string { return at.Format(time.RFC3339) }
	type fields = map[string]any
	day, second := 24*time.Hour, time.Second
	for name, test := range map[string]struct {
		before, after map[string]any
		isUpdate      bool
	}{
		"a text":       {fields{"checked": said(now)}, fields{"checked": said(now.Add(3 * second))}, true},
		"seconds":      {fields{"checked": now.Unix()}, fields{"checked": now.Unix() + 3}, true},
		"milliseconds": {fields{"checked": now.UnixMilli()}, fields{"checked": now.UnixMilli() + 3000}, true},
		"fractions":    {fields{"checked": float64(now.Unix()) + .5}, fields{"checked": float64(now.Unix()) + 3.7}, true},
		"deep": {
			fields{"a": []any{fields{"at": said(now)}}}, fields{"a": []any{fields{"at": said(now.Add(second))}}}, true,
		},
		"nothing": {fields{"checked": said(now)}, fields{"checked": said(now)}, false},
		"a count": {fields{"starts": int64(1)}, fields{"starts": int64(2)}, false},
		"more than that": {
			fields{"checked": said(now), "n": int64(1)}, fields{"checked": said(now.Add(second)), "n": int64(2)}, false,
		},
		"for the first time":  {fields{}, fields{"checked": said(now)}, false},
		"a last change":       {fields{"lastChange": said(now)}, fields{"lastChange": said(now.Add(second))}, false},
		"a change in seconds": {fields{"changedAtUnix": now.Unix()}, fields{"changedAtUnix": now.Unix() + 3}, false},
		"a last check":        {fields{"lastChangeCheck": said(now)}, fields{"lastChangeCheck": said(now.Add(second))}, true},
		"an exchange":         {fields{"lastExchange": said(now)}, fields{"lastExchange": said(now.Add(second))}, true},
		"another day":         {fields{"due": said(now)}, fields{"due": said(now.Add(7 * day))}, false},
		"a condition": {
			fields{"conditions": []any{fields{"type": "Ready", "lastTransitionTime": said(now)}}},
			fields{"conditions": []any{fields{"type": "Ready", "lastTransitionTime": said(now.Add(second))}}},
			false,
		},
	} {
		change := func(kind watch.EventType, at time.Time, object map[string]any) history.Change {
			return history.Change{
				Type: kind, At: at, Resource: schema.GroupVersionResource{Resource: "probes"},
				Object: &unstructured.Unstructured{Object: object},
			}
		}
		var n changeTracker
		changes := []history.Change{change(watch.Added, now, status("1", test.before))}
		n.update(changes)
		n.update(append(changes, change(watch.Modified, now.Add(3*time.Second), status("2", test.after))))
		if n.timestampUpdates["2"] != test.isUpdate || n.lastChange.Equal(now) != test.isUpdate {
			t.Errorf("%s: a timestamp update %v, last change at %v; want %v",
				name, n.timestampUpdates["2"], n.lastChange, test.isUpdate)
		}
	}
}
