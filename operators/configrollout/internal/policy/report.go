package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
)

// wait sets the action Wait and its reason.
func (d *decider) wait(reason, format string, args ...any) {
	d.decision.Action = Wait
	d.decision.WaitReason = reason
	d.addMessage(reason, format, args...)
}

// addMessage adds a sentence to State. It becomes an event if it is new.
func (d *decider) addMessage(reason, format string, args ...any) {
	d.messages = append(d.messages, Event{Warning: reason != "DryRun", Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (d *decider) addInvalid(i annotation.Invalid) {
	if i.Unknown {
		d.addMessage(InvalidAnnotation, "%s: %v", i.Name, i.Err)
		i.Name = "unknown"
	} else {
		d.addMessage(InvalidAnnotation, "%s: %v; the default holds", i.Name, i.Err)
	}
	d.messages[len(d.messages)-1].annotation = strings.TrimPrefix(i.Name, annotation.Prefix)
}

// writeState updates State. The messages of one reason are one event, because Kubernetes would keep only the first of
// several.
func (d *decider) writeState() {
	before := d.Record.State
	var lines []string
	for _, r := range d.messages {
		line := r.Reason + ": " + r.Message
		lines = append(lines, line)
		if strings.Contains(before, line) {
			continue
		}
		if r.annotation != "" {
			d.decision.Invalid = append(d.decision.Invalid, r.annotation)
		}
		if i := slices.IndexFunc(d.decision.Events, func(e Event) bool { return e.Reason == r.Reason }); i >= 0 {
			d.decision.Events[i].Message += "; " + r.Message
		} else {
			d.decision.Events = append(d.decision.Events, r)
		}
	}
	d.decision.Record.State = strings.Join(lines, "; ")
}

func (d *decider) changedNames() string { return d.sourceNames(d.decision.Changed) }

func (d *decider) sourceNames(sources []string) string {
	if len(sources) == 0 {
		return "a digest in the pod template that is not that of the present configuration"
	}
	return summarize(sources)
}

// summarize lists at most five names.
func summarize(names []string) string {
	const some = 5
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > some {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:some], ", "), len(names)-some)
	}
	return strings.Join(names, ", ")
}

func orNone(digest string) string {
	if digest == "" {
		return annotation.None
	}
	return digest
}

// shortDigest returns a prefix of a digest for messages.
func shortDigest(digest string) string {
	const enough = len("sha256:") + 12
	return digest[:min(len(digest), enough)]
}
