package quiescence

import (
	"reflect"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/instant"
)

// This file recognizes periodic status writes: some operators store the time of their last check every few seconds, and
// nothing else changes.

// changeTracker separates the changes of a namespace from periodic timestamps. It is not safe for concurrent use.
type changeTracker struct {
	processed        int
	last             map[types.UID]history.Change
	lastChange       time.Time // time of the last change other than a timestamp update
	timestampUpdates map[string]bool
}

// update processes the changes since the last call. They are those of one log, in order.
func (t *changeTracker) update(changes []history.Change) {
	if t.last == nil {
		t.last = map[types.UID]history.Change{}
		t.timestampUpdates = map[string]bool{}
	}
	for _, c := range changes[t.processed:] {
		before, known := t.last[c.Object.GetUID()]
		t.last[c.Object.GetUID()] = c
		switch {
		case c.Resource.Resource == "events":
		case known && c.Type == watch.Modified && isTimestampUpdate(before, c):
			t.timestampUpdates[c.Object.GetResourceVersion()] = true
		default:
			t.lastChange = c.At
		}
	}
	t.processed = len(changes)
}

// isTimestampUpdate reports whether only timestamps differ, and the later ones are current.
func isTimestampUpdate(before, after history.Change) bool {
	updates := 0
	return differOnlyInTimestamps("", before.Object.Object, after.Object.Object, after.At, &updates) && updates > 0
}

// changeTime matches fields with the time of a change, such as lastTransitionTime and lastChange. A new one without a change
// is not a timestamp update but a common bug, which an oracle reports.
var changeTime = regexp.MustCompile(`(?:C|[._-]c)hanged?` + timeSuffix + `|(?:T|[._-]t)ransition(?:ed)?` + timeSuffix)

const timeSuffix = `(?:At|On|Date|Time|Timestamp|Unix|Seconds|Millis|Milliseconds|Ms)*$`

func differOnlyInTimestamps(path string, a, b any, now time.Time, updates *int) bool {
	switch path {
	case ".metadata.resourceVersion", ".metadata.managedFields", ".metadata.generation":
		return true
	}
	x, aMap := a.(map[string]any)
	y, bMap := b.(map[string]any)
	p, aList := a.([]any)
	q, bList := b.([]any)
	switch {
	case aMap && bMap && len(x) == len(y):
		for key := range x {
			if !differOnlyInTimestamps(path+"."+key, x[key], y[key], now, updates) {
				return false
			}
		}
		return true
	case aList && bList && len(p) == len(q):
		for i := range p {
			if !differOnlyInTimestamps(path+"[]", p[i], q[i], now, updates) {
				return false
			}
		}
		return true
	case reflect.DeepEqual(a, b):
		return true
	case changeTime.MatchString(path), !instant.Is(a, now), !instant.Is(b, now):
		return false
	}
	*updates++
	return true
}
