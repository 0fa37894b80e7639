package remote

import (
	"context"
	"errors"

	"github.com/homeostat-dev/homeostat/sdk/external"
)

// gone is the step after the API has said that the resource does not exist, and that no open request can create it.
func (c *call) gone() Step {
	*c.m = Memory{}
	return Step{}
}

// goneIfCertain is [call.gone], if it is certain.
func (c *call) goneIfCertain() Step {
	if left := c.uncertainFor(); left > 0 {
		return c.wait(min(left, c.jitter(c.PollInterval)))
	}
	return c.gone()
}

// delete deletes the resource, and observes it until it is gone.
func (c *call) delete() Step {
	if c.ID != "" {
		return c.deleteID(c.ID)
	}
	if c.Request == nil || !c.isUnresolved() { // nothing was created
		return c.gone()
	}
	switch {
	case c.Mode == external.ModeByName:
		return c.deleteID(c.Token)
	case c.Mode == external.ModeByToken && c.Find == nil:
		return c.repeatCreation()
	}
	return c.found(c.resolve(c.goneIfCertain))
}

// repeatCreation repeats an open creation to learn the ID of the resource. Its result is the same. It is stored before it is
// sent, as each request: a replica that does not know of a completed deletion must not send it.
func (c *call) repeatCreation() Step {
	if !c.maySend() {
		if wait := c.m.notBefore.Sub(c.now); wait > 0 {
			return c.wait(wait)
		}
		return c.prepare(c.Request.Input)
	}
	s, err := c.read(func(ctx context.Context) (external.State, error) {
		c.m.unsent = ""
		return c.Create(ctx, c.Token, c.Request.Input)
	})
	switch {
	case err == nil:
		return c.found(c.created(s))
	case external.IsRejected(err) && c.uncertainFor() == 0:
		return c.gone()
	}
	return c.retry(err)
}

// found keeps the phase of a resource that was found in order to be deleted.
func (c *call) found(step Step) Step {
	if step.Resource != nil {
		step.Resource.Phase = external.Deleting
	}
	return step
}

func (c *call) deleteID(id string) Step {
	if c.m.observeAt.After(c.now) {
		return c.wait(c.m.observeAt.Sub(c.now))
	}
	if !c.m.deleted {
		err := c.ask(func(ctx context.Context) error { return c.Untyped.Delete(ctx, id) })
		if err != nil && !errors.Is(err, external.ErrNotFound) {
			return c.retry(err)
		}
		c.m.deleted = true
		c.m.failures = 0
	}
	s, err := c.read(func(ctx context.Context) (external.State, error) { return c.Observe(ctx, id) })
	switch {
	case errors.Is(err, external.ErrNotFound) && c.uncertainFor() == 0:
		return c.gone()
	case err != nil && !errors.Is(err, external.ErrNotFound):
		return c.retry(err)
	}
	// The deletion is repeated: it may have missed a resource that was not visible yet.
	c.m.deleted = false
	wait := c.jitter(c.PollInterval)
	c.m.observeAt = c.now.Add(wait)
	c.Message = s.Pending
	return c.wait(wait)
}
