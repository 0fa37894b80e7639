package policy

import (
	"fmt"
	"slices"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/status"
)

// wait sets the action Wait and its reason.
func (d *decider) wait(reason, format string, args ...any) {
	d.decision.Action = Wait
	d.decision.WaitReason = reason
	d.addMessage(reason, format, args...)
}

// routine lists the reasons of messages that ask for no action.
var routine = []string{"DryRun", "OutsideWindow", "Paused"}

// addMessage adds a sentence to State. It becomes an event if it is new.
func (d *decider) addMessage(reason, format string, args ...any) {
	d.messages = append(d.messages, status.Event{
		Warning: !slices.Contains(routine, reason), Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}

// writeState updates State, and adds the new messages to the events.
func (d *decider) writeState() {
	state, added := status.Merge(d.Record.State, d.messages)
	d.decision.Record.State = state
	for _, e := range added {
		if e.Annotation != "" {
			d.decision.Invalid = append(d.decision.Invalid, e.Annotation)
		}
		d.decision.Events = status.Append(d.decision.Events, e)
	}
}

func orNone(digest string) string {
	if digest == "" {
		return annotation.None
	}
	return digest
}
