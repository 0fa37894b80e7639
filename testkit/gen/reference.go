package gen

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/sequence"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// precision is the effort spent on certainty.
type precision int

const (
	quick    precision = iota // a short quiet period
	thorough                  // a long quiet period; differences between two such runs are masked
)

// quickQuietPeriod is the short quiet period. It is extended on a busy machine.
const quickQuietPeriod = 100 * time.Millisecond

// quietPeriod returns the quiet period for a precision.
func (ex *exploration) quietPeriod(p precision) time.Duration {
	if p == quick {
		return quickQuietPeriod
	}
	return ex.Options.QuietPeriod
}

// reference is the result of a manifest in an empty namespace.
type reference struct {
	invalid           string   // why the API server rejects the manifest
	stuck             string   // why the operator cannot realize it, according to its status
	final             bool     // the status does not announce further attempts
	violation         *finding // the operator's violation
	ready             bool     // condition Ready is True
	reportsGeneration bool     // the status has an observed generation
	state             state.State
}

// unusable returns why a state cannot be compared with the reference, or an empty result.
func (r *reference) unusable() result {
	switch {
	case r == nil:
		return result{}
	case r.violation != nil:
		return result{violation: new(*r.violation)} // a copy: each caller completes its own
	case r.invalid != "":
		return result{stuck: r.invalid} // valid as an update, not as a creation
	default:
		return result{stuck: r.stuck}
	}
}

// entry is a reference, complete or in progress.
type entry struct {
	precision precision
	done      chan struct{} // closed when ref and err are set
	ref       reference
	err       error
}

// reference returns the result of a manifest in an empty namespace. It is computed once, and again if a later call
// requires more precision.
func (ex *exploration) reference(ctx context.Context, m *unstructured.Unstructured, p precision) (*reference, error) {
	key := render(m)
	for {
		ex.mu.Lock()
		e := ex.references[key]
		mine := e == nil || e.precision < p
		if mine {
			e = &entry{precision: p, done: make(chan struct{})}
			ex.references[key] = e
		}
		ex.mu.Unlock()
		if mine {
			e.ref, e.err = ex.computeReference(ctx, m, p)
			if e.err != nil {
				ex.forget(key, e)
			}
			close(e.done)
			return &e.ref, e.err
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if e.err == nil {
			return &e.ref, nil
		} // after a canceled computation of another caller, try again
	}
}

func (ex *exploration) forget(key string, e *entry) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if ex.references[key] == e {
		delete(ex.references, key)
	}
}

// computeReference runs the operator on a manifest in an empty namespace. A thorough reference takes two runs, and masks
// their differences.
func (ex *exploration) computeReference(
	ctx context.Context, m *unstructured.Unstructured, p precision,
) (_ reference, err error) {
	select {
	case ex.slots <- struct{}{}:
		defer func() { <-ex.slots }()
	case <-ctx.Done():
		return reference{}, ctx.Err()
	}
	one := &freshRun{m: m}
	other := &freshRun{m: m}
	defer func() { err = cmp.Or(err, one.close()) }()
	if p == quick {
		err := one.run(ctx, ex, p)
		return one.ref, err
	}
	defer func() { err = cmp.Or(err, other.close()) }()
	var wg sync.WaitGroup
	var otherErr error
	wg.Go(func() { otherErr = other.run(ctx, ex, p) })
	err = one.run(ctx, ex, p)
	wg.Wait()
	if err := errors.Join(err, otherErr); err != nil || one.ref.invalid != "" || other.ref.invalid != "" {
		return one.ref, err
	}
	if err := ex.waitAgreement(one, other); err != nil {
		return one.ref, err
	}
	if one.ref.violation == nil {
		one.ref.violation = other.ref.violation
	}
	if one.ref.stuck == "" {
		one.ref.stuck = other.ref.stuck
	}
	return one.ref, nil
}

// waitAgreement waits until both runs have the same state. Persistent differences are nondeterminism of the operator and
// are masked from then on.
func (ex *exploration) waitAgreement(one, other *freshRun) error {
	began := time.Now()
	for time.Since(began) < ex.thoroughRecheck().timeout {
		ex.mu.Lock()
		diff := state.Difference(ex.mask.Apply(one.ref.state), ex.mask.Apply(other.ref.state))
		ex.mu.Unlock()
		if diff == "" || one.ref.violation != nil || other.ref.violation != nil {
			return nil
		}
		for _, a := range []*freshRun{one, other} {
			if err := a.observe(ex, thorough); err != nil {
				return err
			}
		}
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	for _, key := range ex.mask.AddDifferences(one.ref.state, other.ref.state) {
		ex.mask[key] = true
	}
	return nil
}

// freshRun is a run of one manifest in an empty namespace.
type freshRun struct {
	m       *unstructured.Unstructured
	session *session
	ref     reference
}

func (fr *freshRun) run(ctx context.Context, c *exploration, p precision) (err error) {
	if fr.session, err = c.open(ctx, "alone"); err != nil {
		return err
	}
	if fr.ref.invalid, err = fr.session.apply(fr.m, "apply the manifest"); err != nil || fr.ref.invalid != "" {
		return err
	}
	return fr.observe(c, p)
}

// observe waits until the operator is idle and stores the state.
func (fr *freshRun) observe(c *exploration, p precision) error {
	s := fr.session
	falseStatus, err := s.inner.WaitIdle(c.quietPeriod(p))
	if err == nil && p == thorough {
		err = s.inner.CatchUp()
	}
	if err != nil {
		return err
	}
	fr.ref.state = s.state()
	fr.ref.ready = s.isReady()
	fr.ref.stuck, fr.ref.final = s.stuck()
	fr.ref.reportsGeneration = s.isObserved() && observed(s.custom()) > 0
	if fr.ref.violation = s.violation(falseStatus); fr.ref.violation != nil {
		fr.ref.violation.sequence = sequence.Sequence{fr.m}
	}
	return nil
}

func (fr *freshRun) close() error {
	if fr.session == nil {
		return nil
	}
	entries, err := fr.session.inner.Close()
	if fr.ref.violation != nil {
		fr.ref.violation.timeline = entries
	}
	return err
}

// difference returns the difference between a state and the reference's, or "".
func (ex *exploration) difference(ref *reference, got state.State) string {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return state.Difference(ex.mask.Apply(ref.state), ex.mask.Apply(got))
}
