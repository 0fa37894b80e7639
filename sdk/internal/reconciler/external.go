package reconciler

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/homeostat-dev/homeostat/sdk/external"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/remote"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// applyExternal makes the requests for the external resources of an object. Their records are in the status of p.Object
// afterwards, and what they wait for is in p.ExternalErr. If the pass is complete, those that it has not recorded are
// deleted.
func (e *Reconciler) applyExternal(ctx context.Context, st *objectState, p *desired.Pass, complete bool) {
	stored := desired.ExternalOf(p.Object)
	if stored == nil {
		return
	}
	var result []external.Resource
	var errs []error
	record := func(step remote.Step) {
		if step.Resource != nil {
			result = append(result, *step.Resource)
		}
		errs = append(errs, step.Err)
		p.RequeueAfter(step.After)
		p.RequeueAfter(retry.RequestedDelay(step.Err))
	}
	planned := map[string]bool{}
	for _, want := range p.External {
		planned[want.Kind+"/"+want.Name] = true
	}
	// What is not desired any more is deleted first: it may be in the way.
	for i := range stored.External {
		switch r := &stored.External[i]; {
		case planned[r.Kind+"/"+r.Name]:
		case complete:
			record(e.deleteResource(ctx, st, p, r))
		default:
			record(remote.Step{Resource: r})
		}
	}
	for _, want := range p.External {
		records := func(r external.Resource) bool { return r.Kind == want.Kind && r.Name == want.Name }
		i := slices.IndexFunc(stored.External, records)
		var r *external.Resource
		if i >= 0 {
			r = &stored.External[i]
		}
		record(e.stepResource(ctx, want.Kind, r, func(engine *remote.Engine) remote.Step {
			return engine.Apply(ctx, r, remote.Want{
				Name: want.Name, Input: want.Input, Answer: answer(p, want.Kind, want.Name),
			}, st.memory(want.Kind, want.Name))
		}))
	}
	stored.External = result
	p.ExternalErr = errors.Join(errs...)
}

// deleteExternal deletes the external resources of an object that is being deleted, the newest first.
func (e *Reconciler) deleteExternal(ctx context.Context, st *objectState, p *desired.Pass) error {
	stored := desired.ExternalOf(p.Object)
	for stored != nil && len(stored.External) > 0 {
		last := len(stored.External) - 1
		step := e.deleteResource(ctx, st, p, &stored.External[last])
		if step.Resource != nil {
			stored.External[last] = *step.Resource
			p.RequeueAfter(retry.RequestedDelay(step.Err))
			return step.Err
		}
		stored.External = stored.External[:last]
	}
	return nil
}

func (e *Reconciler) deleteResource(
	ctx context.Context, st *objectState, p *desired.Pass, r *external.Resource,
) remote.Step {
	return e.stepResource(ctx, r.Kind, r, func(engine *remote.Engine) remote.Step {
		return engine.Delete(ctx, r, answer(p, r.Kind, r.Name), st.memory(r.Kind, r.Name))
	})
}

// stepResource makes one step with the engine of a kind. After a panic of the operator's functions the record r, which may
// be nil, stays as it is: the request may have been sent.
func (e *Reconciler) stepResource(
	ctx context.Context, kind string, r *external.Resource, do func(*remote.Engine) remote.Step,
) (step remote.Step) {
	engine, err := e.externalEngine(kind)
	if err != nil {
		return remote.Step{Resource: r, Err: err}
	}
	step.Resource = r
	defer retry.RecoverPanic(ctx, &step.Err)
	return do(engine)
}

// answer returns the annotation in which a person tells the outcome of a creation.
func answer(p *desired.Pass, kind, name string) string {
	return p.Object.GetAnnotations()[remote.AnnotationPrefix+kind+"."+name]
}

func (e *Reconciler) externalEngine(kind string) (*remote.Engine, error) {
	i := slices.IndexFunc(e.op.External, func(k external.Untyped) bool { return k.Name == kind })
	if i < 0 {
		return nil, retry.Invalid(remote.ReasonUnknownKind,
			"the object has external resources of kind %s, which this version of the operator does not know", kind)
	}
	return &remote.Engine{Untyped: e.op.External[i], Now: time.Now, Rand: rand.Float64}, nil
}

// memory returns what the process knows of an external resource.
func (st *objectState) memory(kind, name string) *remote.Memory {
	key := kind + "/" + name
	if st.external == nil {
		st.external = map[string]*remote.Memory{}
	}
	if st.external[key] == nil {
		st.external[key] = &remote.Memory{}
	}
	return st.external[key]
}
