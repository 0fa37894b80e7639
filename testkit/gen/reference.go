package gen

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/sequence"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// precision is how sure one wants to be.
type precision int

const (
	quick    precision = iota // a short pause counts as rest
	thorough                  // a long one does, and what differs between two such runs does not count
)

// quickQuietPeriod is a short pause. On a busy machine it is longer.
const quickQuietPeriod = 100 * time.Millisecond

// quietPeriod is how long an operator must have been at rest.
func (ex *exploration) quietPeriod(care precision) time.Duration {
	if care == quick {
		return quickQuietPeriod
	}
	return ex.Options.Rest
}

// reference is what comes of a manifest alone.
type reference struct {
	invalid           string   // why the API server refuses it
	stuck             string   // why the operator cannot carry it out, by what it says itself
	final             bool     // and it does not say that it goes on trying
	wrong             *finding // what the operator does wrong
	ready             bool     // Ready is True
	reportsGeneration bool     // the custom resource says which generation its status is about
	state             state.State
}

// unusable says why nothing can be compared with the reference, if so.
func (r *reference) unusable() result {
	switch {
	case r == nil:
		return result{}
	case r.wrong != nil:
		return result{wrong: new(*r.wrong)} // a copy: each reader tells its own story of it
	case r.invalid != "":
		return result{stuck: r.invalid} // it can only come to be, and not be created
	default:
		return result{stuck: r.stuck}
	}
}

// entry is a reference that is there or is being made.
type entry struct {
	precision precision
	done      chan struct{} // closed when the others are set
	ref       reference
	err       error
}

// reference returns what comes of a manifest alone. It is found out once, or twice if more care is taken later.
func (ex *exploration) reference(ctx context.Context, m *unstructured.Unstructured, care precision) (*reference, error) {
	key := render(m)
	for {
		ex.mu.Lock()
		e := ex.references[key]
		mine := e == nil || e.precision < care
		if mine {
			e = &entry{precision: care, done: make(chan struct{})}
			ex.references[key] = e
		}
		ex.mu.Unlock()
		if mine {
			e.ref, e.err = ex.computeReference(ctx, m, care)
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
		} // else whoever made it gave up, which is no reason for us to
	}
}

func (ex *exploration) forget(key string, e *entry) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if ex.references[key] == e {
		delete(ex.references, key)
	}
}

// computeReference finds out what comes of a manifest alone. With care it does so twice, and learns what differs by itself.
func (ex *exploration) computeReference(ctx context.Context, m *unstructured.Unstructured, care precision) (reference, error) {
	select {
	case ex.slots <- struct{}{}:
		defer func() { <-ex.slots }()
	case <-ctx.Done():
		return reference{}, ctx.Err()
	}
	one := &freshRun{m: m}
	other := &freshRun{m: m}
	defer one.close()
	if care == quick {
		err := one.run(ctx, ex, care)
		return one.ref, err
	}
	defer other.close()
	var wg sync.WaitGroup
	var otherErr error
	wg.Go(func() { otherErr = other.run(ctx, ex, care) })
	err := one.run(ctx, ex, care)
	wg.Wait()
	if err := errors.Join(err, otherErr); err != nil || one.ref.invalid != "" || other.ref.invalid != "" {
		return one.ref, err
	}
	if err := ex.waitAgreement(one, other); err != nil {
		return one.ref, err
	}
	if one.ref.wrong == nil {
		one.ref.wrong = other.ref.wrong
	}
	if one.ref.stuck == "" {
		one.ref.stuck = other.ref.stuck
	}
	return one.ref, nil
}

// waitAgreement waits until both trials come to the same. What lasts is how they differ by themselves, and does not count from now
// on.
func (ex *exploration) waitAgreement(one, other *freshRun) error {
	began := time.Now()
	for time.Since(began) < ex.thoroughRecheck().timeout {
		ex.mu.Lock()
		diff := state.Difference(ex.mask.Apply(one.ref.state), ex.mask.Apply(other.ref.state))
		ex.mu.Unlock()
		if diff == "" || one.ref.wrong != nil || other.ref.wrong != nil {
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
	for _, key := range ex.mask.Learn(one.ref.state, other.ref.state) {
		ex.mask[key] = true
	}
	return nil
}

// freshRun is a trial of a manifest in a namespace where there was nothing before.
type freshRun struct {
	m       *unstructured.Unstructured
	session *session
	ref     reference
}

func (fr *freshRun) run(ctx context.Context, c *exploration, care precision) (err error) {
	if fr.session, err = c.open(ctx, "alone"); err != nil {
		return err
	}
	if fr.ref.invalid, err = fr.session.apply(fr.m, "apply the manifest"); err != nil || fr.ref.invalid != "" {
		return err
	}
	return fr.observe(c, care)
}

// recheck waits for rest and notes what there is.
func (fr *freshRun) observe(c *exploration, care precision) error {
	t := fr.session
	falseStatus, err := t.inner.WaitIdle(c.quietPeriod(care))
	if err == nil && care == thorough {
		err = t.inner.CatchUp()
	}
	if err != nil {
		return err
	}
	fr.ref.state, fr.ref.ready = t.state(), t.isReady()
	fr.ref.stuck, fr.ref.final = t.stuck()
	fr.ref.reportsGeneration = t.isObserved() && observed(t.custom()) > 0
	if fr.ref.wrong = t.wrong(falseStatus); fr.ref.wrong != nil {
		fr.ref.wrong.sequence = sequence.Sequence{fr.m}
	}
	return nil
}

func (fr *freshRun) close() {
	if fr.session == nil {
		return
	}
	entries := fr.session.inner.Close()
	if fr.ref.wrong != nil {
		fr.ref.wrong.timeline = entries
	}
}

// difference returns how a state differs from a reference's, "" if it does not.
func (ex *exploration) difference(ref *reference, got state.State) string {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return state.Difference(ex.mask.Apply(ref.state), ex.mask.Apply(got))
}
