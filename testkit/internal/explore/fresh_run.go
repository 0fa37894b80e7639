package explore

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/quiescence"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// order is the order of the objects and the operator in a fresh namespace.
type order int

const (
	objectsFirst  order = iota // the operator starts when all objects exist
	oneAfterOther              // the operator is idle before the next object is created
)

// freshRun is a run of an operator with the objects that a baseline run had after a step.
type freshRun struct {
	*run

	parent context.Context //nolint:containedctx // that of the exploration; the run has one of its own
	of     *run            // the baseline run
	step   int
	why    string // why the state shows nothing, or ""
}

func (x *Explorer) newFreshRun(ctx context.Context, of *run, step int) *freshRun {
	return &freshRun{run: x.newRun(ctx, x.freshPlan(step), x.baseline), parent: ctx, of: of, step: step}
}

func (f *freshRun) sinceBegan() time.Duration { return time.Since(f.began) }

// end stops the operator and deletes the namespace.
func (f *freshRun) end() {
	for number, p := range f.procs.running() {
		f.procs.endProcess(number, p.Stop)
	}
	f.space.Close()
	if f.log != nil {
		f.log.End()
	}
}

// differs reports whether the operator comes to rest in a state that is not the baseline's. A namespace in which the
// objects cannot be created, or in which the operator does not become ready, shows nothing: f.why is set then.
func (f *freshRun) differs(how order) (bool, error) {
	if !f.open() || !f.begin(how) {
		f.why = cmp.Or(f.why, "the operator cannot be started")
	}
	differs := f.why == "" && f.waitDifferent()
	if err := f.infraError(); err != nil {
		return false, err
	}
	return differs && f.why == "", f.parent.Err()
}

// begin creates the objects and starts the operator. It reports success.
func (f *freshRun) begin(how order) bool {
	f.setupCalls = len(f.user.Calls())
	f.operator.Enter(f.step + 1)
	if how == oneAfterOther && !f.procs.start() {
		return false
	}
	for _, in := range f.of.inputs[f.step].objects {
		if err := f.make(in); err != nil {
			f.why = "its objects cannot be created: " + err.Error()
			return false
		}
		if how == oneAfterOther && !f.waitQuiet() {
			f.why = whyBusy
			return false
		}
	}
	if how == oneAfterOther {
		return true
	}
	f.await(f.historyShowsWrites)
	f.initial = f.log.Changes()
	return f.procs.start()
}

// waitQuiet waits until the operator is idle, and reports success.
func (f *freshRun) waitQuiet() bool {
	ctx, cancel := f.idle.WithTimeout()
	defer cancel()
	f.operator.ResetIdleTime()
	return f.idle.WaitOperatorIdle(ctx, f.x.QuietPeriod) == nil
}

// make creates, changes or deletes one object of the scenario.
func (f *freshRun) make(in input) error {
	ctx, c := f.space.Context(), f.space.Client
	switch {
	case in.now == nil:
		return client.IgnoreNotFound(c.Delete(ctx, f.localized(in.setup)))
	case in.setup == nil:
		return manifest.Apply(ctx, c, f.localized(in.now))
	}
	patch := state.MergePatch(in.setup, in.now)
	if len(patch) == 0 {
		return nil
	}
	data := client.RawPatch(types.MergePatchType, f.localize(patch))
	return c.Patch(ctx, f.localized(in.setup), data, client.FieldOwner(manifest.FieldOwner))
}

// whyBusy is the reason if a fresh operator does not become idle.
const whyBusy = "the operator does not become idle"

// waitDifferent waits until the state is that of the baseline and returns false, or until the operator has been idle for
// three quiet periods in another state and returns true. It sets f.why if neither happens in time.
func (f *freshRun) waitDifferent() bool {
	const periods, most = 3, 20
	ctx, cancel := context.WithTimeout(f.space.Context(), min(f.x.Timeout, most*f.x.QuietPeriod+2*f.startTimeout()))
	defer cancel()
	quick := max(quiescence.StepQuietPeriod, f.x.StepQuietPeriod)
	idle := f.idle.AllIdle()
	for {
		changed := f.log.Changed()
		switch {
		case !f.idle.HasBeenIdle(ctx, quick, idle):
		case f.difference() == "":
			return false
		case f.idle.HasBeenIdle(ctx, max(periods*f.x.QuietPeriod, f.startQuietPeriod()), idle) && f.hasPolled():
			f.why = f.whyUnusable()
			return f.why == ""
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			f.why = whyBusy
			return false
		}
	}
}

func (f *freshRun) difference() string {
	reference := &freshReference{state: f.state(), mask: state.Mask{}}
	fresh, edited := f.x.comparable(reference, f.of.checkpoints[f.step])
	return state.Difference(fresh, edited)
}

// summaries are the conditions that are True if the operator does what an object wants.
var summaries = []string{readiness.Ready, "Synced", "Available", "Healthy"}

// whyUnusable returns why the state of the idle operator is no reference, or "". The operator may not do what the objects
// want, for example because they suspend it. Then it may keep what it has made before. A Job has run once, and what came of
// it remains.
func (f *freshRun) whyUnusable() string {
	switch {
	case !f.procs.isRunning():
		return "the operator does not run"
	case f.isBehind():
		return errHistoryLags.Error()
	case f.checkStatus(f.step) != nil:
		return "its status is false"
	}
	now, names := f.state(), f.names(f.log.Changes())
	for _, c := range f.log.CurrentObjects() {
		if !f.writesStatusOf(groupResourceOf(c)) {
			continue
		}
		for _, summary := range summaries {
			if is, ok := readiness.Condition(c.Object, summary); ok && is.Status != metav1.ConditionTrue {
				return fmt.Sprintf("%s is not %s there: %s", names.Of(c.Object.GetUID()), summary, is.Reason)
			}
		}
	}
	for name := range f.of.checkpoints[f.step] {
		if _, ok := now[name]; !ok && strings.HasPrefix(name, "jobs.batch/") {
			return name + " does not exist there"
		}
	}
	return ""
}
