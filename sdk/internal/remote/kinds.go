package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/homeostat-dev/homeostat/sdk/external"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// Kinds are the kinds of external resources of one operator. It implements desired.ExternalEngine.
type Kinds struct {
	all []external.Untyped
	err error // names every mistake in the kinds
}

// NewKinds returns the kinds.
func NewKinds(definitions ...external.Definition) *Kinds {
	var errs []error
	k := &Kinds{}
	for _, d := range definitions {
		u, err := d.Untyped()
		if err == nil && slices.Contains(k.Kinds(), u.Name) {
			err = fmt.Errorf("external kind %q is listed twice", u.Name)
		}
		errs = append(errs, err)
		k.all = append(k.all, u)
	}
	k.err = errors.Join(errs...)
	return k
}

// Validate implements desired.ExternalEngine.
func (k *Kinds) Validate() error { return k.err }

// Kinds implements desired.ExternalEngine.
func (k *Kinds) Kinds() []string {
	names := make([]string, len(k.all))
	for i, u := range k.all {
		names[i] = u.Name
	}
	return names
}

// pass is the state of one call of [Kinds.Apply] or [Kinds.Delete].
type pass struct {
	*Kinds
	*desired.Pass
	ctx     context.Context //nolint:containedctx // the value lives as long as one call
	connect desired.Connect
	memory  desired.ExternalMemory
	engines map[string]engineOrError // by kind
}

type engineOrError struct {
	*Engine
	err error
}

// Apply implements desired.ExternalEngine.
func (k *Kinds) Apply(
	ctx context.Context, p *desired.Pass, connect desired.Connect, m desired.ExternalMemory, complete bool,
) {
	stored := desired.ExternalOf(p.Object)
	if stored == nil {
		return
	}
	c := pass{Kinds: k, Pass: p, ctx: ctx, connect: connect, memory: m, engines: map[string]engineOrError{}}
	if err := c.connectAll(stored.External); err != nil {
		p.ExternalErr = err
		return
	}
	var result []external.Resource
	var errs []error
	record := func(step Step) {
		if step.Resource != nil {
			result = append(result, *step.Resource)
		}
		errs = append(errs, step.Err)
		p.RequeueAfter(step.After)
		p.RequeueAfter(retry.RequestedDelay(step.Err))
	}
	// What is not desired any more is deleted first: it may be in the way.
	for i := range stored.External {
		switch r := &stored.External[i]; {
		case c.desires(r):
		case complete:
			record(c.delete(r))
		default:
			record(Step{Resource: r})
		}
	}
	for _, want := range p.External {
		before := find(stored.External, want)
		record(awaitReconcile(want, before, c.apply(before, want)))
	}
	stored.External = result
	p.ExternalErr = errors.Join(errs...)
}

// Delete implements desired.ExternalEngine.
func (k *Kinds) Delete(
	ctx context.Context, p *desired.Pass, connect desired.Connect, m desired.ExternalMemory,
) error {
	stored := desired.ExternalOf(p.Object)
	c := pass{Kinds: k, Pass: p, ctx: ctx, connect: connect, memory: m, engines: map[string]engineOrError{}}
	for stored != nil && len(stored.External) > 0 {
		last := len(stored.External) - 1
		step := c.delete(&stored.External[last])
		if step.Resource != nil {
			stored.External[last] = *step.Resource
			p.RequeueAfter(retry.RequestedDelay(step.Err))
			return step.Err
		}
		stored.External = stored.External[:last]
	}
	return nil
}

// Plan implements desired.ExternalEngine.
func (*Kinds) Plan(p *desired.Pass) []desired.ExternalAction {
	var actions []desired.ExternalAction
	var all []external.Resource
	if stored := desired.ExternalOf(p.Object); stored != nil {
		all = stored.External
	}
	c := pass{Pass: p}
	for _, r := range slices.Backward(all) {
		if !c.desires(&r) {
			actions = append(actions, desired.ExternalAction{Verb: "delete", Kind: r.Kind, Name: r.Name})
		}
	}
	for _, want := range p.External {
		r := find(all, want)
		a := desired.ExternalAction{Verb: "create", Kind: want.Kind, Name: want.Name, Input: want.Input}
		switch {
		case r == nil || r.ID == "" || r.Phase == external.Deleting:
		case r.Applied == Digest(want.Input):
			continue
		default:
			a.Verb = "update"
		}
		actions = append(actions, a)
	}
	return actions
}

// awaitReconcile returns the step of a desired resource that the reconcile has read as r. If the step has changed what an
// operator reads of it, the object is not ready before the next reconcile has seen the change.
func awaitReconcile(want desired.ExternalResource, r *external.Resource, step Step) Step {
	if step.Err == nil && !hasSameResult(r, step.Resource) {
		step.Err = retry.WaitFor(step.After, ReasonPending, "%s %s: the next reconcile reads its state", want.Kind, want.Name)
	}
	return step
}

func hasSameResult(a, b *external.Resource) bool {
	return a != nil && b != nil && a.ID == b.ID && a.Phase == b.Phase && maps.Equal(a.Outputs, b.Outputs)
}

func find(all []external.Resource, want desired.ExternalResource) *external.Resource {
	i := slices.IndexFunc(all, func(r external.Resource) bool { return r.Kind == want.Kind && r.Name == want.Name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func (c *pass) desires(r *external.Resource) bool {
	same := func(w desired.ExternalResource) bool { return w.Kind == r.Kind && w.Name == r.Name }
	return slices.ContainsFunc(c.External, same)
}

// connectAll connects each kind that the reconcile needs. An error means that the reconcile has read an outdated state. No
// request is made then, because its result could not be stored.
func (c *pass) connectAll(stored []external.Resource) error {
	for _, r := range stored {
		if e := c.engine(r.Kind); isStale(e.err) {
			return e.err
		}
	}
	for _, want := range c.External {
		if e := c.engine(want.Kind); isStale(e.err) {
			return e.err
		}
	}
	return nil
}

func isStale(err error) bool {
	class := retry.Classify(err)
	return class == retry.ClassStale || class == retry.ClassOutdated
}

// engine returns the engine of a kind with the connection of the object, or the error of the latter.
func (c *pass) engine(kind string) engineOrError {
	if e, ok := c.engines[kind]; ok {
		return e
	}
	e := c.newEngine(kind)
	c.engines[kind] = e
	return e
}

func (c *pass) newEngine(kind string) (e engineOrError) {
	i := slices.Index(c.Kinds.Kinds(), kind)
	if i < 0 {
		e.err = retry.Invalid(ReasonUnknownKind,
			"the object has external resources of kind %s, which this version of the operator does not know", kind)
		return e
	}
	e.Engine = &Engine{Untyped: c.all[i], Now: time.Now, Rand: rand.Float64}
	if c.connect != nil {
		defer retry.RecoverPanic(c.ctx, &e.err)
		connection, err := c.connect(c.ctx, c.Pass, kind)
		e.Connection = connection
		e.err = err
	}
	return e
}

func (c *pass) apply(r *external.Resource, want desired.ExternalResource) Step {
	return c.step(want.Kind, r, func(e *Engine) Step {
		return e.Apply(c.ctx, r, Want{
			Name: want.Name, Input: want.Input, Answer: c.answer(want.Kind, want.Name),
		}, c.memoryOf(want.Kind, want.Name))
	})
}

func (c *pass) delete(r *external.Resource) Step {
	return c.step(r.Kind, r, func(e *Engine) Step {
		return e.Delete(c.ctx, r, c.answer(r.Kind, r.Name), c.memoryOf(r.Kind, r.Name))
	})
}

// step makes one step with the engine of a kind. After a panic of the operator's functions the record r, which may be nil,
// stays as it is: the request may have been sent.
func (c *pass) step(kind string, r *external.Resource, do func(*Engine) Step) (step Step) {
	step.Resource = r
	e := c.engine(kind)
	if e.err != nil {
		step.Err = e.err
		return step
	}
	defer retry.RecoverPanic(c.ctx, &step.Err)
	return do(e.Engine)
}

// answer returns the annotation with which a user reports the outcome of a creation.
func (c *pass) answer(kind, name string) string {
	return c.Object.GetAnnotations()[AnnotationPrefix+kind+"."+name]
}

func (c *pass) memoryOf(kind, name string) *Memory {
	key := kind + "/" + name
	m, ok := c.memory[key].(*Memory)
	if !ok {
		m = &Memory{}
		c.memory[key] = m
	}
	return m
}
