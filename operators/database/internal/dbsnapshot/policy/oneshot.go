package policy

import (
	"fmt"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/desired"
)

// OneShotDone reports whether a DBSnapshot without a schedule has its copy, or has made all of its attempts.
func OneShotDone(o *v1.DBSnapshot) bool {
	s := &o.Status
	return o.Spec.Schedule == "" &&
		(s.LastSuccessfulTime != nil || s.LastFailureTime != nil && s.ConsecutiveFailures > retries(o))
}

// retries returns how often an attempt that failed is repeated. A Job repeats the attempts at a dump itself.
func retries(o *v1.DBSnapshot) int32 {
	const defaultLimit = 2
	switch limit := o.Spec.BackoffLimit; {
	case o.Spec.Method != v1.MethodVolumeSnapshot:
		return 0
	case limit == nil:
		return defaultLimit
	default:
		return *limit
	}
}

// oneShotName returns the name of the next attempt at the copy of a DBSnapshot without a schedule.
func (t *Tracker) oneShotName() string {
	name := desired.ImmediateName(t.Object)
	if failed := t.status().ConsecutiveFailures; failed > 0 {
		return fmt.Sprintf("%s-%d", name, failed+1)
	}
	return name
}
