// Package status explains to the user of a workload why it is not up to date: in the annotation state, and in events.
package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
)

// InvalidAnnotation is the reason of events about invalid annotations.
const InvalidAnnotation = "InvalidAnnotation"

// Event is an event for the user.
type Event struct {
	Warning         bool
	Reason, Message string
	// Detail is not part of the stored state, because it may change without a new event.
	Detail string
	// Annotation is the invalid annotation without the prefix, if the event is about one.
	Annotation string
}

// Invalid returns the event about an invalid annotation.
func Invalid(i annotation.Invalid) Event {
	e := Event{Warning: true, Reason: InvalidAnnotation}
	effect := "nothing is rolled until it is corrected"
	switch i.Effect {
	case annotation.Holds, annotation.HoldsSources:
	case annotation.IgnoresObject:
		effect = "the object is ignored until it is corrected"
	case annotation.Defaults:
		effect = "the default applies"
	}
	name := i.Name
	if i.Object != "" {
		name += " of " + i.Object
	}
	e.Message = fmt.Sprintf("%s: %v; %s", name, i.Err, effect)
	if i.Unknown {
		i.Name = "unknown"
	}
	e.Annotation = strings.TrimPrefix(i.Name, annotation.Prefix)
	return e
}

// Merge returns the new value of the annotation state for these messages, and the messages that the old value lacks.
func Merge(before string, messages []Event) (state string, added []Event) {
	var lines []string
	for _, m := range messages {
		line := m.Reason + ": " + m.Message
		lines = append(lines, line)
		if !strings.Contains(before, line) {
			added = append(added, m)
		}
	}
	state = strings.Join(lines, "; ")
	return strings.ToValidUTF8(state[:min(len(state), annotation.MaxValue)], ""), added
}

// Append adds an event. The messages of one reason are one event, because Kubernetes would keep only the first of several.
func Append(events []Event, e Event) []Event {
	if i := slices.IndexFunc(events, func(other Event) bool { return other.Reason == e.Reason }); i >= 0 {
		events[i].Message += "; " + e.Message
		return events
	}
	return append(events, e)
}

// Sources names the changed sources in a message: at most five.
func Sources(names []string) string {
	if len(names) == 0 {
		return "a digest in the pod template that is not that of the present configuration"
	}
	return Names(names)
}

// Names lists at most five names.
func Names(names []string) string {
	const some = 5
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > some {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:some], ", "), len(names)-some)
	}
	return strings.Join(names, ", ")
}

// ShortDigest returns a prefix of a digest for messages.
func ShortDigest(digest string) string {
	const enough = 12
	hash := strings.LastIndex(digest, ":") + 1
	return digest[:min(len(digest), hash+enough)]
}
