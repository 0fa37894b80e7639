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

// An Oracle is a rule that holds for every operator. At the end of each test all of them are held against the operators that
// the test has started, whatever it looked for itself.
type Oracle string

// The oracles. Those that package chaos has, too, have the same names there.
const (
	// Forbidden finds requests for which the operator has no right. With Env.RBAC these are gaps in the roles it ships.
	Forbidden Oracle = oracle.Forbidden
	// Refused finds requests that the API server refuses for good, with any 4xx but 404, 409, 410 and 429: invalid objects,
	// for example.
	Refused Oracle = oracle.Refused
	// InvalidStatus finds conditions without a type or with an unknown status, observed generations from the future, and
	// transition times that move although the status does not.
	InvalidStatus Oracle = oracle.Status
	// SpecWritten finds changes of the spec of what the test has made, of a kind of which the operator writes the status:
	// the spec is the user's.
	SpecWritten Oracle = oracle.Spec
	// Panicked finds panics, those that controller-runtime recovers from included.
	Panicked Oracle = "panic"
	// Leaked finds goroutines of an operator that are still there some seconds after it was stopped or killed.
	Leaked Oracle = "goroutine-leak"
)

// Oracles returns all of them.
func Oracles() []Oracle {
	return []Oracle{Forbidden, Refused, InvalidStatus, SpecWritten, Panicked, Leaked}
}

var errNoReason = errors.New("testkit.Without: the first argument says to the reader why the rules do not hold; it is empty")

// Without switches oracles off for the test, because it breaks these rules on purpose. The reason is for its readers and may
// not be empty.
func Without(reason string, oracles ...Oracle) Option {
	return func(o *options) {
		o.reasons = append(o.reasons, reason)
		o.without = append(o.without, oracles...)
	}
}

// exempt switches oracles off, or says what is wrong with that.
func (o *observation) exempt(opts options) error {
	for _, reason := range opts.reasons {
		if strings.TrimSpace(reason) == "" {
			return errNoReason
		}
	}
	for _, one := range opts.without {
		if !slices.Contains(Oracles(), one) {
			return fmt.Errorf("testkit.Without: there is no oracle %q; there are %q", one, Oracles())
		}
	}
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range opts.without {
		o.without[string(one)] = true
	}
	return nil
}

// tolerates reports whether an oracle is switched off.
func (o *observation) tolerates(one Oracle) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.without[string(one)]
}

// judge holds the oracles against what happened until now, when the test is over and its operators still run.
func (o *observation) judge() []report.Violation {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	again := o.judged // by another K of the same test
	o.judged = true
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

// catchUpPatience bounds the wait for the history to show what the operators have written last.
const catchUpPatience = 500 * time.Millisecond

// catchUp waits for that. It is some milliseconds behind.
func (o *observation) catchUp(calls []intercept.Call) {
	o.mu.Lock()
	histories, spaces := slices.Clone(o.histories), slices.Clone(o.spaces)
	o.mu.Unlock()
	over := time.After(catchUpPatience)
	for i, log := range histories {
		for _, c := range last(calls, spaces[i]) {
			for !shows(log, c) {
				changed := log.Changed()
				if shows(log, c) {
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

// last returns the last write of each kind in the namespace that the history will show.
func last(calls []intercept.Call, namespace string) map[intercept.Kind]intercept.Call {
	writes := map[intercept.Kind]intercept.Call{}
	for _, c := range calls {
		stored := c.UID != "" && c.Version != "" && c.Code < http.StatusMultipleChoices && !c.DryRun
		if stored && c.Namespace == namespace && c.Verb != "delete" && c.Resource != "events" && !intercept.IsLease(c.Request) {
			writes[intercept.KindOf(c.Request)] = c
		}
	}
	return writes
}

func shows(log *history.Log, call intercept.Call) bool {
	return slices.ContainsFunc(log.Changes(), func(c history.Change) bool {
		return string(c.Object.GetUID()) == call.UID && c.Object.GetResourceVersion() == call.Version
	})
}

// accuse fails the test for what the oracles found, each finding once.
func (o *observation) accuse(found []report.Violation) {
	if o == nil {
		return
	}
	told := map[string]bool{}
	for _, v := range found {
		if o.tolerates(Oracle(v.Oracle)) || told[v.Message] {
			continue
		}
		told[v.Message] = true
		detail := ""
		if v.Detail != "" {
			detail = "\n" + v.Detail
		}
		o.t.Errorf("%s: %s%s\nA test that means to break this rule says why: testkit.New(t, testkit.Without(\"...\", %q))",
			v.Oracle, v.Message, detail, v.Oracle)
	}
}

// A panicking is one panic of an operator.
type panicking struct {
	value any
	stack string
}

// panics keeps the panics of one operator. It may be used from several goroutines.
type panics struct {
	mu  sync.Mutex
	all []panicking
}

type panicsKey struct{}

// watchPanics sees to it that panics are noticed, wherever Kubernetes's libraries recover from them: controller-runtime and
// client-go tell these handlers first, with the context of the operator.
var watchPanics = sync.OnceFunc(func() {
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, func(ctx context.Context, value any) {
		if p, ok := ctx.Value(panicsKey{}).(*panics); ok {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.all = append(p.all, panicking{value, string(debug.Stack())})
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
			Oracle: string(Panicked), Message: fmt.Sprintf("%s panicked: %v", op, one.value), Detail: one.stack,
		})
	}
	return found
}
