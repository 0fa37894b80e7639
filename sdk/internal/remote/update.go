package remote

import (
	"context"
	"errors"

	"github.com/homeostat-dev/homeostat/sdk/external"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// update brings an existing resource to its desired state.
func (c *call) update() Step {
	switch input := c.want.Input; {
	case c.Untyped.Update == nil:
		return c.failed(retry.Invalid(ReasonImmutable,
			"%s: it cannot be changed after its creation: restore its input, or replace it by one of another name", c))
	case c.maySend() && c.Request.Input == input:
		return c.sendUpdate()
	case c.isRejected(input):
		return c.failed(c.m.rejected.err)
	case c.m.notBefore.After(c.now):
		return c.wait(c.m.notBefore.Sub(c.now))
	case c.Applied != Digest(input):
		c.Phase = external.Updating
		c.Message = ""
	}
	return c.prepare(c.want.Input)
}

// sendUpdate sends the stored request.
func (c *call) sendUpdate() Step {
	s, err := c.read(func(ctx context.Context) (external.State, error) {
		c.m.unsent = ""
		return c.Untyped.Update(ctx, c.ID, c.Request.Input)
	})
	_, later := external.Delay(err)
	switch {
	case err == nil:
		c.Applied = Digest(c.Request.Input)
		c.completed(true, 0)
		c.record(s)
		return c.changed()
	case errors.Is(err, external.ErrNotFound):
		return c.vanished()
	case later:
		c.Request.Attempt = ""
	case external.IsRejected(err):
		c.Request.Attempt = ""
		return c.reject(c.Request.Input, err)
	}
	return c.retry(err)
}

// observe polls a pending resource, and looks for drift of one in its desired state.
func (c *call) observe() Step {
	if c.Phase == external.Ready {
		if c.Request != nil { // with an earlier request that is uncertain
			return c.confirm()
		}
		if c.ResyncInterval == 0 {
			return Step{Resource: &c.Resource}
		}
	}
	if c.m.observeAt.IsZero() { // after a restart
		c.m.observeAt = c.now.Add(c.jitter(c.ResyncInterval))
		if c.Phase == external.Pending {
			c.m.observeAt = c.now
		}
	}
	if left := c.m.observeAt.Sub(c.now); left > 0 {
		return c.wait(left)
	}
	before := c.Resource.DeepCopy()
	s, err := c.read(func(ctx context.Context) (external.State, error) { return c.Observe(ctx, c.ID) })
	switch {
	case errors.Is(err, external.ErrNotFound):
		return c.vanished()
	case err != nil:
		return c.retry(err)
	}
	c.record(s)
	if s.Drifted && s.Pending == "" {
		c.Phase = external.Updating
		return c.changed()
	}
	if !before.Equal(c.Resource) {
		return c.changed()
	}
	return c.wait(c.m.observeAt.Sub(c.now))
}

// confirm waits until all requests are certain. An earlier update may be carried out after the last one, so the last one is
// repeated then.
func (c *call) confirm() Step {
	switch left := c.uncertainFor(); {
	case left > 0:
		return c.wait(left)
	case c.Request.Input != "":
		return c.update()
	}
	c.Request = nil
	return c.changed()
}

// vanished starts again with a new resource, unless an observation may miss the present one.
func (c *call) vanished() Step {
	if left := c.uncertainFor(); left > 0 {
		return c.wait(min(left, c.jitter(c.PollInterval)))
	}
	*c.m = Memory{}
	return c.begin()
}
