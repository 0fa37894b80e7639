package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// An Oracle is a rule that holds for every operator. At the end of each test testkit checks all oracles against the
// operators that the test has started, in addition to the test's own assertions.
type Oracle string

// The oracles. Those that package chaos shares have the same names there.
const (
	// Forbidden finds requests without permission. With Env.RBAC these are gaps in the roles that the operator ships.
	Forbidden Oracle = oracle.Forbidden
	// Refused finds requests that the API server rejects permanently, for example invalid objects: any 4xx but 404,
	// 409, 410 and 429.
	Refused Oracle = oracle.Refused
	// InvalidStatus finds conditions without a type or with an unknown status, observed generations beyond the current
	// one, and transition times that change without the status.
	InvalidStatus Oracle = oracle.Status
	// SpecWritten finds changes to the spec of objects that the test created, in kinds whose status the operator
	// writes. The spec belongs to the user.
	SpecWritten Oracle = oracle.Spec
	// Panic finds panics, including those that controller-runtime recovers from.
	Panic Oracle = "panic"
	// GoroutineLeak finds goroutines of an operator that still run some seconds after it was stopped or killed.
	GoroutineLeak Oracle = "goroutine-leak"
)

// Oracles returns all oracles.
func Oracles() []Oracle {
	return []Oracle{Forbidden, Refused, InvalidStatus, SpecWritten, Panic, GoroutineLeak}
}

var errNoReason = errors.New(
	"testkit.WithoutOracles: the first argument says to the reader why the rules do not hold; it is empty")

// WithoutOracles switches oracles off for a test that breaks these rules on purpose. The reason documents it and must not be
// empty.
func WithoutOracles(reason string, oracles ...Oracle) Option {
	return func(o *options) {
		o.reasons = append(o.reasons, reason)
		o.disabledOracles = append(o.disabledOracles, oracles...)
	}
}

// exempt switches oracles off. It returns an error for an empty reason or an unknown oracle.
func (o *observation) exempt(opts options) error {
	for _, reason := range opts.reasons {
		if strings.TrimSpace(reason) == "" {
			return errNoReason
		}
	}
	for _, one := range opts.disabledOracles {
		if !slices.Contains(Oracles(), one) {
			return fmt.Errorf("testkit.WithoutOracles: there is no oracle %q; there are %q", one, Oracles())
		}
	}
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range opts.disabledOracles {
		o.disabledOracles[string(one)] = true
	}
	return nil
}

// tolerates reports whether an oracle is switched off.
func (o *observation) tolerates(one Oracle) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.disabledOracles[string(one)]
}

// checkOracles checks the oracles against the observation, at the end of the test and before its operators are stopped.
func (o *observation) checkOracles() []report.Violation {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	again := o.checked // by another K of the same test
	o.checked = true
	o.mu.Unlock()
	if again {
		return nil
	}
	calls := o.calls()
	o.catchUp(calls)
	o.end()
	kinds := oracle.StatusKinds(calls)
	wrote := map[string]bool{}
	for _, c := range calls {
		if c.UID != "" {
			wrote[c.UID+"@"+c.Version] = true
		}
	}
	ours := func(c history.Change) bool {
		return wrote[string(c.Object.GetUID())+"@"+c.Object.GetResourceVersion()]
	}
	o.mu.Lock()
	changes := o.changes
	o.mu.Unlock()
	return slices.Concat(
		oracle.Calls(calls), oracle.SpecWrites(calls, o.user.Calls(), changes, kinds), oracle.Statuses(changes, kinds, ours),
		oracle.PrematureConditions(changes, kinds, ours),
	)
}

// catchUpTimeout bounds the wait for the history to include the last writes of the operators.
const catchUpTimeout = 5 * time.Second

// catchUp waits until the history includes the calls. Its informers lag by some milliseconds, and more on a busy machine.
func (o *observation) catchUp(calls []intercept.Call) {
	o.mu.Lock()
	histories, spaces := slices.Clone(o.histories), slices.Clone(o.namespaces)
	o.mu.Unlock()
	over := time.After(catchUpTimeout)
	for i, log := range histories {
		for _, c := range last(calls, spaces[i]) {
			for !includes(log, c) {
				changed := log.Changed()
				if includes(log, c) {
					break
				}
				select {
				case <-changed:
				case <-over:
					return
				}
			}
		}
	}
}

// last returns the last write per kind in the namespace, of the writes that the history will include.
func last(calls []intercept.Call, namespace string) map[intercept.GroupResource]intercept.Call {
	writes := map[intercept.GroupResource]intercept.Call{}
	for _, c := range calls {
		stored := c.UID != "" && c.Version != "" && c.Code < http.StatusMultipleChoices && !c.DryRun
		if stored && c.Namespace == namespace && c.Verb != "delete" && c.Resource != "events" && !intercept.IsLease(c.Request) {
			writes[intercept.GroupResourceOf(c.Request)] = c
		}
	}
	return writes
}

func includes(log *history.Log, call intercept.Call) bool {
	return slices.ContainsFunc(log.Changes(), func(c history.Change) bool {
		return string(c.Object.GetUID()) == call.UID && c.Object.GetResourceVersion() == call.Version
	})
}

// reportViolations fails the test with the violations, each of them once.
func (o *observation) reportViolations(found []report.Violation) {
	if o == nil {
		return
	}
	reported := map[string]bool{}
	for _, v := range found {
		if o.tolerates(Oracle(v.Oracle)) || reported[v.Message] {
			continue
		}
		reported[v.Message] = true
		detail := ""
		if v.Detail != "" {
			detail = "\n" + v.Detail
		}
		exemption := fmt.Sprintf("testkit.New(t, testkit.WithoutOracles(\"...\", %q))", v.Oracle)
		if remote, ok := o.t.(remoteTest); ok {
			exemption = remote.Exemption(v.Oracle)
		}
		o.t.Errorf("%s: %s%s\nA test that means to break this rule says why: %s", v.Oracle, v.Message, detail, exemption)
	}
}

// A recordedPanic is one panic of an operator.
type recordedPanic struct {
	value any
	stack string
}

// panics holds the panics of one operator. It is safe for concurrent use.
type panics struct {
	mu  sync.Mutex
	all []recordedPanic
}

type panicsKey struct{}

// watchPanics records panics that the Kubernetes libraries recover from: controller-runtime and client-go call these
// handlers first, with the context of the operator.
var watchPanics = sync.OnceFunc(func() {
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, func(ctx context.Context, value any) {
		if p, ok := ctx.Value(panicsKey{}).(*panics); ok {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.all = append(p.all, recordedPanic{value, string(debug.Stack())})
		}
	})
})

func (p *panics) texts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]string, 0, len(p.all))
	for _, one := range p.all {
		all = append(all, fmt.Sprintf("%v\n%s", one.value, one.stack))
	}
	return all
}

func (p *panics) violations(op *Instance) []report.Violation {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := make([]report.Violation, 0, len(p.all))
	for _, one := range p.all {
		found = append(found, report.Violation{
			Oracle: string(Panic), Message: fmt.Sprintf("%s panicked: %v", op, one.value), Detail: one.stack,
		})
	}
	return found
}
