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

// care is how sure one wants to be.
type care int

const (
	hasty   care = iota // a short pause counts as rest
	careful             // a long one does, and what differs between two such runs does not count
)

// moment is a short pause. On a busy machine it is longer.
const moment = 100 * time.Millisecond

// pause is how long an operator must have been at rest.
func (c *campaign) pause(care care) time.Duration {
	if care == hasty {
		return moment
	}
	return c.Options.Rest
}

// reference is what comes of a manifest alone.
type reference struct {
	invalid string   // why the API server refuses it
	stuck   string   // why the operator cannot carry it out, by what it says itself
	final   bool     // and it does not say that it goes on trying
	wrong   *finding // what the operator does wrong
	ready   bool     // Ready is True
	told    bool     // the custom resource says which generation its status is about
	state   state.State
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
	care care
	done chan struct{} // closed when the others are set
	ref  reference
	err  error
}

// reference returns what comes of a manifest alone. It is found out once, or twice if more care is taken later.
func (c *campaign) reference(ctx context.Context, m *unstructured.Unstructured, care care) (*reference, error) {
	key := render(m)
	for {
		c.mu.Lock()
		e := c.references[key]
		mine := e == nil || e.care < care
		if mine {
			e = &entry{care: care, done: make(chan struct{})}
			c.references[key] = e
		}
		c.mu.Unlock()
		if mine {
			e.ref, e.err = c.find(ctx, m, care)
			if e.err != nil {
				c.forget(key, e)
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

func (c *campaign) forget(key string, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.references[key] == e {
		delete(c.references, key)
	}
}

// find finds out what comes of a manifest alone. With care it does so twice, and learns what differs by itself.
func (c *campaign) find(ctx context.Context, m *unstructured.Unstructured, care care) (reference, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return reference{}, ctx.Err()
	}
	one := &alone{m: m}
	other := &alone{m: m}
	defer one.close()
	if care == hasty {
		err := one.run(ctx, c, care)
		return one.ref, err
	}
	defer other.close()
	var wg sync.WaitGroup
	var otherErr error
	wg.Go(func() { otherErr = other.run(ctx, c, care) })
	err := one.run(ctx, c, care)
	wg.Wait()
	if err := errors.Join(err, otherErr); err != nil || one.ref.invalid != "" || other.ref.invalid != "" {
		return one.ref, err
	}
	if err := c.agree(one, other); err != nil {
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

// agree waits until both trials come to the same. What lasts is how they differ by themselves, and does not count from now
// on.
func (c *campaign) agree(one, other *alone) error {
	began := time.Now()
	for time.Since(began) < c.thorough().patience {
		c.mu.Lock()
		diff := state.Difference(c.mask.Apply(one.ref.state), c.mask.Apply(other.ref.state))
		c.mu.Unlock()
		if diff == "" || one.ref.wrong != nil || other.ref.wrong != nil {
			return nil
		}
		for _, a := range []*alone{one, other} {
			if err := a.look(c, careful); err != nil {
				return err
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.mask.Learn(one.ref.state, other.ref.state) {
		c.mask[key] = true
	}
	return nil
}

// alone is a trial of a manifest in a namespace where there was nothing before.
type alone struct {
	m     *unstructured.Unstructured
	trial *trial
	ref   reference
}

func (a *alone) run(ctx context.Context, c *campaign, care care) (err error) {
	if a.trial, err = c.open(ctx, "alone"); err != nil {
		return err
	}
	if a.ref.invalid, err = a.trial.apply(a.m, "apply the manifest"); err != nil || a.ref.invalid != "" {
		return err
	}
	return a.look(c, care)
}

// look waits for rest and notes what there is.
func (a *alone) look(c *campaign, care care) error {
	t := a.trial
	lie, err := t.session.Rest(c.pause(care))
	if err == nil && care == careful {
		err = t.session.CatchUp()
	}
	if err != nil {
		return err
	}
	a.ref.state, a.ref.ready = t.state(), t.isReady()
	a.ref.stuck, a.ref.final = t.stuck()
	a.ref.told = t.isObserved() && observed(t.custom()) > 0
	if a.ref.wrong = t.wrong(lie); a.ref.wrong != nil {
		a.ref.wrong.sequence = sequence.Sequence{a.m}
	}
	return nil
}

func (a *alone) close() {
	if a.trial == nil {
		return
	}
	entries := a.trial.session.Close()
	if a.ref.wrong != nil {
		a.ref.wrong.timeline = entries
	}
}

// differ returns how a state differs from a reference's, "" if it does not.
func (c *campaign) differ(ref *reference, got state.State) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return state.Difference(c.mask.Apply(ref.state), c.mask.Apply(got))
}
