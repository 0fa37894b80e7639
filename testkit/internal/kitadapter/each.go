package kitadapter

import (
	"errors"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// Each makes an operator for each run. It is safe for concurrent use.
type Each struct {
	make func(k *testkit.K) testkit.Runnable

	mu    sync.Mutex
	byRun map[*testkit.K]testkit.Runnable
}

// NewEach returns the operators that the function makes, one for each run.
func NewEach(operator func(k *testkit.K) testkit.Runnable) *Each {
	return &Each{make: operator, byRun: map[*testkit.K]testkit.Runnable{}}
}

// SetupInNamespaces implements testkit.Runnable. It fails: without a run there is no operator.
func (*Each) SetupInNamespaces(manager.Manager, ...string) error {
	return errors.New("setting up an operator of each run: only Sweep and Explore start it")
}

// Operator returns the operator of a run: op itself, unless it is an [Each]. All processes of a run have the same one.
func Operator(op testkit.Runnable, k *testkit.K) testkit.Runnable {
	e, ok := op.(*Each)
	if !ok {
		return op
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byRun[k] == nil {
		e.byRun[k] = e.make(k)
	}
	return e.byRun[k]
}

// Check returns a rule for the idle operator.
func Check(name string, violation func(k *testkit.K) string) explore.Check {
	return explore.Check{Name: name, Holds: func(s *space.Space) (text string) {
		isolate(func() { text = violation(Kit(s)) })
		return text
	}}
}
