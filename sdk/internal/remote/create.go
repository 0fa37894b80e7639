package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/homeostat-dev/homeostat/sdk/external"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// begin stores the intent to create the resource. A selected name must be free before: what has it is another resource.
func (c *call) begin() Step {
	c.Resource = external.Resource{
		Kind: c.Untyped.Name, Name: c.want.Name, Phase: external.Creating, Token: random(), Account: c.Connection.Account,
	}
	if c.isRejected(c.want.Input) {
		return Step{Err: c.m.rejected.err}
	}
	if c.Rename != nil {
		name, err := c.Rename(c.want.Input)
		if err != nil {
			return Step{Err: c.reject(c.want.Input, err).Err}
		}
		c.Token = name
	}
	if c.Mode == external.ModeByName {
		_, err := c.read(func(ctx context.Context) (external.State, error) { return c.Observe(ctx, c.Token) })
		switch {
		case err == nil:
			err = fmt.Errorf("a resource with the name %s exists already", c.Token)
			step := c.retry(err)
			return Step{Err: retry.WaitFor(retry.RequestedDelay(step.Err), ReasonConflict, "%s: %v", c, err)}
		case !errors.Is(err, external.ErrNotFound):
			return Step{Err: c.retry(err).Err}
		}
	}
	c.m.failures = 0
	return c.prepare(c.want.Input)
}

// create creates the resource, or finds the one of an earlier request.
func (c *call) create() Step {
	switch {
	case c.maySend():
		return c.sendCreation()
	case c.isOpen() && c.Request.Attempt == c.m.answered: // the result was not stored
		return c.created(c.m.answer)
	case !c.isOpen():
		return c.prepareCreation()
	}
	return c.resolve(c.prepareCreation)
}

// prepareCreation prepares another request. If an earlier one may have been carried out, its input must be the same.
func (c *call) prepareCreation() Step {
	if wait := c.m.notBefore.Sub(c.now); wait > 0 {
		return c.wait(wait)
	}
	input := c.want.Input
	if c.Request != nil && c.isUnresolved() {
		input = c.Request.Input
	}
	if c.isRejected(input) {
		return c.failed(c.m.rejected.err)
	}
	return c.prepare(input)
}

// sendCreation sends the stored request.
func (c *call) sendCreation() Step {
	s, err := c.read(func(ctx context.Context) (external.State, error) {
		c.m.unsent = ""
		return c.Create(ctx, c.Token, c.Request.Input)
	})
	_, later := external.Delay(err)
	switch {
	case err == nil:
		c.m.answered = c.Request.Attempt
		c.m.answer = s
		return c.created(s)
	case later:
		c.Request.Attempt = ""
	case external.IsRejected(err):
		c.Request.Attempt = ""
		if c.uncertainFor() == 0 { // otherwise an earlier request may succeed
			c.resolved()
			return c.reject(c.Request.Input, err)
		}
	}
	return c.retry(err)
}

// created records the resource that the stored request has created.
func (c *call) created(s external.State) Step {
	c.Applied = Digest(c.Request.Input)
	c.completed(c.Mode != external.ModeByToken, c.ReadDelay) // a late creation with the same token is harmless
	if c.Request != nil {
		c.Request.Input = "" // only updates are repeated
	}
	c.record(s)
	return c.changed()
}

// resolve looks up the result of a creation that may have been sent. If there is none, it continues with absent.
func (c *call) resolve(absent func() Step) Step {
	var lookUp func(context.Context) (external.State, error)
	switch {
	case c.Mode == external.ModeAtMostOnce:
		return c.resolveByAnswer(absent)
	case c.Mode == external.ModeByName:
		lookUp = func(ctx context.Context) (external.State, error) { return c.Observe(ctx, c.Token) }
	case c.Find != nil:
		lookUp = func(ctx context.Context) (external.State, error) { return c.Find(ctx, c.Token) }
	default:
		return absent()
	}
	s, err := c.read(lookUp)
	switch {
	case err == nil:
		return c.created(s)
	case !errors.Is(err, external.ErrNotFound):
		return c.retry(err)
	case c.Mode == external.ModeByTag && c.uncertainFor() > 0:
		return c.wait(min(c.uncertainFor(), c.jitter(c.PollInterval)))
	case c.uncertainFor() == 0:
		c.resolved()
	}
	return absent()
}

// resolveByAnswer takes the result of a creation from the annotation of a person.
func (c *call) resolveByAnswer(absent func() Step) Step {
	attempt, id, _ := strings.Cut(c.want.Answer, "=")
	switch {
	case attempt != c.Request.Attempt || id == "":
		return c.failed(retry.Invalid(ReasonOutcomeUnknown,
			"%s: it is not known whether the creation at %s succeeded; look it up, and set annotation %s to %s=ID, or to %s=%s "+
				"if there is none", c, c.Request.Time.UTC().Format(time.RFC3339), AnnotationPrefix+c.Kind+"."+c.want.Name,
			c.Request.Attempt, c.Request.Attempt, NoResource))
	case id == NoResource:
		c.resolved()
		return absent()
	}
	s, err := c.read(func(ctx context.Context) (external.State, error) { return c.Observe(ctx, id) })
	if err != nil {
		return c.retry(fmt.Errorf("observing %s: %w", id, err))
	}
	return c.created(s)
}
