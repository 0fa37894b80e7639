package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
)

// wait says why the workload is not rolled.
func (d *decider) wait(reason, format string, args ...any) {
	d.do.Action, d.do.Because = Wait, reason
	d.say(reason, format, args...)
}

// say makes a sentence a part of State, and an event if it was not there before.
func (d *decider) say(reason, format string, args ...any) {
	d.reports = append(d.reports, Event{Warning: reason != "DryRun", Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (d *decider) sayInvalid(i annotation.Invalid) {
	if i.Unknown {
		d.say(InvalidAnnotation, "%s: %v", i.Name, i.Err)
		i.Name = "unknown"
	} else {
		d.say(InvalidAnnotation, "%s: %v; the default holds", i.Name, i.Err)
	}
	d.reports[len(d.reports)-1].annotation = strings.TrimPrefix(i.Name, annotation.Prefix)
}

// report brings State up to date. What is told for one reason is one event: of several at once Kubernetes keeps the first.
func (d *decider) report() {
	before := d.Record.State
	var lines []string
	for _, r := range d.reports {
		line := r.Reason + ": " + r.Message
		lines = append(lines, line)
		if strings.Contains(before, line) {
			continue
		}
		if r.annotation != "" {
			d.do.Invalid = append(d.do.Invalid, r.annotation)
		}
		if i := slices.IndexFunc(d.do.Events, func(e Event) bool { return e.Reason == r.Reason }); i >= 0 {
			d.do.Events[i].Message += "; " + r.Message
		} else {
			d.do.Events = append(d.do.Events, r)
		}
	}
	d.do.Record.State = strings.Join(lines, "; ")
}

func (d *decider) causes() string { return d.cause(d.do.Changed) }

func (d *decider) cause(sources []string) string {
	if len(sources) == 0 {
		return "a digest in the pod template that is not that of the present configuration"
	}
	return list(sources)
}

// list names a few of many.
func list(names []string) string {
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

// brief is enough of a digest for a person.
func brief(digest string) string {
	const enough = len("sha256:") + 12
	return digest[:min(len(digest), enough)]
}
