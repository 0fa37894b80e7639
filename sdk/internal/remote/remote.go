// Package remote makes the requests for the external resources of an object: see package external.
//
// [Engine.Apply] and [Engine.Delete] are called once per reconcile and resource. Each makes at most one request that changes
// something, and returns the resource as the status must record it. The caller stores the status and calls again at once if
// it differs. What must be stored before a request is sent is returned without sending it:
//
//	intent stored -> request sent -> result stored
//
// An intent (external.Request) has a random Attempt. A process sends a request only for an attempt that it stored a moment
// ago and has not sent. In all other cases, such as after a crash, the request may have been sent, and the resource is
// looked up first.
package remote

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/homeostat-dev/homeostat/sdk/external"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// maxSendWindow limits the time after which a stored intent is no longer sent. A process that was paused in between must not
// send a request that another one regards as lost.
const maxSendWindow = 10 * time.Second

func (e *Engine) sendWindow() time.Duration { return min(maxSendWindow, e.MaxLatency/4) }

// Reasons of conditions.
const (
	ReasonPending        = "ExternalPending"
	ReasonFailing        = "ExternalFailing"
	ReasonRejected       = "ExternalRejected"
	ReasonConflict       = "ExternalConflict"
	ReasonImmutable      = "ExternalImmutable"
	ReasonOutcomeUnknown = "ExternalOutcomeUnknown"
	ReasonAccountChanged = "ExternalAccountChanged"
	ReasonUnknownKind    = "ExternalKindUnknown"
)

// AnnotationPrefix is the beginning of the annotation that tells the outcome of a creation. The kind, a dot and the name
// follow.
const AnnotationPrefix = "external.homeostat.dev/"

// NoResource is the part of the annotation's value that says that the creation has not happened.
const NoResource = "none"

// Engine makes the requests of one kind.
type Engine struct {
	external.Untyped
	Connection external.Connection

	Now  func() time.Time
	Rand func() float64 // in [0,1), for the jitter
}

// Memory is what a process knows of one resource between reconciles. Losing it in a restart causes only lookups.
type Memory struct {
	unsent    string        // the attempt that this process stored and has not sent
	allowance time.Duration // the time to store it: see prepare
	answered  string        // the attempt whose answer is the next field; the status may not have been stored
	answer    external.State
	failures  int       // consecutive
	notBefore time.Time // no request before then
	observeAt time.Time // no observation of a pending resource, or of one in its desired state, before then
	version   string    // of the credentials
	deleted   bool      // the API has accepted a deletion
	rejected  rejection
}

// rejection is the last rejected input.
type rejection struct {
	digest string
	err    error
	until  time.Time
}

// Want is the desired state of a resource.
type Want struct {
	Name  string // within the object
	Input string // JSON
	// Answer is the value of the annotation of the resource, or "".
	Answer string
}

// Step is the result of one call.
type Step struct {
	// Resource is the resource to store. Nil means that there is none, and that its entry is removed.
	Resource *external.Resource
	// Err is an error of package retry with the time of the next call. It is nil if the resource is in its desired state, or
	// if a deletion is complete.
	Err error
	// After is the time until the next call without an error. Zero means none.
	After time.Duration
}

// Apply brings a resource closer to its desired state. r is its entry in the status, or nil.
func (e *Engine) Apply(ctx context.Context, r *external.Resource, want Want, m *Memory) Step {
	c := e.newCall(ctx, r, want, m)
	if err := c.checkAccount(); err != nil {
		return c.failed(err)
	}
	switch {
	case r == nil:
		return c.begin()
	case r.Phase == external.Deleting: // it was not desired in the meantime
		return c.delete()
	case r.ID == "":
		return c.create()
	case r.Applied != Digest(want.Input), r.Phase == external.Updating, r.Request != nil && r.Request.Attempt != "":
		return c.update()
	}
	return c.observe()
}

// Delete deletes a resource that is not desired.
func (e *Engine) Delete(ctx context.Context, r *external.Resource, answer string, m *Memory) Step {
	c := e.newCall(ctx, r, Want{Name: r.Name, Answer: answer}, m)
	if err := c.checkAccount(); err != nil {
		return c.failed(err)
	}
	if r.Phase == external.Deleting {
		return c.delete()
	}
	c.Phase = external.Deleting
	c.Message = ""
	*m = Memory{unsent: m.unsent, allowance: m.allowance}
	return c.changed()
}

// call is the state of one call of [Engine.Apply] or [Engine.Delete].
type call struct {
	*Engine
	external.Resource
	ctx  context.Context //nolint:containedctx // the value lives as long as one call
	want Want
	m    *Memory
	now  time.Time
}

func (e *Engine) newCall(ctx context.Context, r *external.Resource, want Want, m *Memory) *call {
	if e.Connection.Client != nil {
		ctx = external.WithClient(ctx, e.Connection.Client)
	}
	c := &call{Engine: e, ctx: ctx, want: want, m: m, now: e.Now()}
	if r != nil {
		r.DeepCopyInto(&c.Resource)
	}
	if m.version != e.Connection.Version { // the failures were those of other credentials
		m.version = e.Connection.Version
		m.failures = 0
		m.notBefore = time.Time{}
		m.rejected = rejection{}
	}
	return c
}

// checkAccount returns an error if the resource is, or may be, in another account than the one of the connection. IDs and
// tokens have no meaning there.
func (c *call) checkAccount() error {
	used := c.Resource.Account
	if used == c.Connection.Account {
		return nil
	}
	if c.ID == "" && !c.isUnresolved() {
		c.Resource.Account = c.Connection.Account
		return nil
	}
	return retry.Invalid(ReasonAccountChanged,
		"%s: it is in account %q, and cannot be moved to %q: restore the account, or use a new name for the resource", c, used,
		c.Connection.Account)
}

// String names the resource for messages.
func (c *call) String() string { return c.Kind + " " + c.want.Name }

// changed returns a resource that differs from the stored one: the next call follows as soon as it is stored.
func (c *call) changed() Step { return c.wait(0) }

// wait returns a resource that has not failed, to be called again after this time.
func (c *call) wait(after time.Duration) Step {
	if c.Phase == external.Ready {
		return Step{Resource: &c.Resource, After: after}
	}
	message := c.Message
	if message == "" {
		message = strings.ToLower(string(c.Phase))
	}
	if (c.Phase == external.Creating || c.Phase == external.Deleting) && c.uncertainFor() > 0 {
		message += fmt.Sprintf("; it is not certain before %s whether it exists (MaxLatency, ReadDelay)",
			c.uncertainUntil().UTC().Format(time.RFC3339))
	}
	return c.failed(retry.WaitFor(after, ReasonPending, "%s: %s", c, message))
}

func (c *call) failed(err error) Step { return Step{Resource: &c.Resource, Err: err} }

// retry returns the step after a request that failed or was not made.
func (c *call) retry(err error) Step {
	if wait, ok := isDeferred(err); ok {
		return c.wait(wait)
	}
	c.m.failures++
	wait := c.jitter(retry.BackoffAfter(nil, c.m.failures))
	if d, ok := external.Delay(err); ok && d > 0 {
		wait = d
	}
	c.m.notBefore = c.now.Add(wait)
	return c.failed(retry.WaitFor(wait, ReasonFailing, "%s: %s", c, retry.Describe(err)))
}

// reject returns the step after a request that will never be carried out with this input. It is repeated when the input
// differs, and rarely otherwise: the reason may be a quota.
func (c *call) reject(input string, err error) Step {
	c.m.rejected.digest = Digest(input)
	c.m.rejected.err = retry.Invalid(ReasonRejected, "%s: %s", c, retry.Describe(err))
	c.m.rejected.until = c.now.Add(rejectedRetry)
	return c.failed(c.m.rejected.err)
}

// rejectedRetry is the time after which a rejected request is repeated with the same input.
const rejectedRetry = 10 * time.Minute

func (c *call) isRejected(input string) bool {
	return c.m.rejected.digest == Digest(input) && c.now.Before(c.m.rejected.until)
}

// ask makes a request within the limits of the account, and not before the backoff of the last one has passed.
func (c *call) ask(f func(context.Context) error) (err error) {
	if wait := c.m.notBefore.Sub(c.now); wait > 0 {
		return &deferredError{wait}
	}
	account := c.Untyped.Account.For(c.Connection.Account, c.now)
	if wait := account.Acquire(c.now); wait > 0 {
		return &deferredError{wait}
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.RequestTimeout)
	defer cancel()
	defer func() { account.Release(c.Now(), err) }() // also after a panic of the function
	return f(ctx)
}

// read is [call.ask] for a request that returns a state.
func (c *call) read(f func(context.Context) (external.State, error)) (external.State, error) {
	var s external.State
	err := c.ask(func(ctx context.Context) (err error) {
		if s, err = f(ctx); err == nil && s.ID == "" {
			err = errors.New("the answer has no ID")
		}
		return err
	})
	return s, err
}

// deferredError is the error of a request that was not made.
type deferredError struct{ wait time.Duration }

func (e *deferredError) Error() string { return "the request waits for " + e.wait.String() }

// isDeferred returns the time after which a request that was not made may be made.
func isDeferred(err error) (time.Duration, bool) {
	if d, ok := errors.AsType[*deferredError](err); ok {
		return d.wait, true
	}
	return 0, false
}

// jitter changes a time by up to 20 %.
func (c *call) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*c.Rand()))
}

func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Digest identifies an input.
func Digest(input string) string {
	sum := sha256.Sum256([]byte(input))
	return hex.EncodeToString(sum[:8])
}
