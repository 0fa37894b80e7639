package remote

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/external"
)

// This file is about the intent of a request: external.Request in the status.

// prepare makes the intent of a request with this input. It is sent by a later call, after it was stored. If storing the
// last one took longer than the send window, this one may take as long: otherwise no request would be sent while the API
// server is slow. The limit is for a process that was paused.
func (c *call) prepare(input string) Step {
	until := c.uncertainUntil()
	var allowance time.Duration
	if c.isUnsent() && !c.maySend() {
		allowance = min(c.m.allowance+c.now.Sub(c.Request.Time.Time), max(c.MaxLatency, maxSendWindow))
	}
	c.m.allowance = allowance
	c.Request = &external.Request{Attempt: random(), Time: metav1.NewMicroTime(c.now.Add(allowance)), Input: input}
	if !until.IsZero() { // also in the past: it is not known whether the earlier request was carried out
		c.Request.UncertainUntil = &metav1.MicroTime{Time: until}
	}
	c.m.unsent = c.Request.Attempt
	return c.changed()
}

// isUnsent reports whether it is certain that the stored request was not sent: this process stored it, and did not send it.
func (c *call) isUnsent() bool {
	return c.Request != nil && c.Request.Attempt != "" && c.Request.Attempt == c.m.unsent
}

// maySend reports whether the stored request may be sent.
func (c *call) maySend() bool { return c.isUnsent() && c.now.Sub(c.Request.Time.Time) < c.sendWindow() }

// isOpen reports whether the stored request may have been sent, and has no answer.
func (c *call) isOpen() bool { return c.Request != nil && c.Request.Attempt != "" && !c.isUnsent() }

// uncertainUntil returns the time until which requests without an answer may be carried out, or may be missing from an
// observation. Zero means that there are none.
func (c *call) uncertainUntil() time.Time {
	var until time.Time
	if c.Request == nil {
		return until
	}
	if c.Request.UncertainUntil != nil {
		until = c.Request.UncertainUntil.Time
	}
	if c.isOpen() {
		if last := c.Request.Time.Add(c.sendWindow() + c.MaxLatency + c.ReadDelay); last.After(until) {
			until = last
		}
	}
	return until
}

// uncertainFor returns the time that is left of [call.uncertainUntil].
func (c *call) uncertainFor() time.Duration { return max(c.uncertainUntil().Sub(c.now), 0) }

// isUnresolved reports whether it is not known whether an earlier request was carried out.
func (c *call) isUnresolved() bool { return !c.uncertainUntil().IsZero() }

// resolved ends the stored request and all earlier ones: it is certain that none was or will be carried out.
func (c *call) resolved() {
	c.Request.Attempt = ""
	c.Request.UncertainUntil = nil
}

// completed ends the stored request after its success. What is uncertain of earlier ones stays if it matters, for the given
// time at least.
func (c *call) completed(earlierMatter bool, least time.Duration) {
	until := time.Time{}
	if least > 0 {
		until = c.Now().Add(least) // after the answer
	}
	if u := c.Request.UncertainUntil; u != nil && u.After(until) && earlierMatter {
		until = u.Time
	}
	c.resolved()
	if !until.After(c.now) {
		c.Request = nil
		return
	}
	c.Request.UncertainUntil = &metav1.MicroTime{Time: until}
}

// record takes the state that the API has returned.
func (c *call) record(s external.State) {
	c.m.failures = 0
	c.m.notBefore = time.Time{}
	c.ID = s.ID
	c.Outputs = s.Outputs
	c.Message = s.Pending
	c.Phase = external.Ready
	c.m.observeAt = c.now.Add(c.jitter(c.ResyncInterval))
	if s.Pending != "" {
		c.Phase = external.Pending
		c.m.observeAt = c.now.Add(c.jitter(c.PollInterval))
	}
}
