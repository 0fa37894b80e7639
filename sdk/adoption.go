package sdk

import (
	"cmp"
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// adoptable reports whether an object that is in the way may be taken over.
func (s *step) adoptable(o client.Object) bool {
	return s.adopt != nil && metav1.GetControllerOf(o) == nil && o.GetDeletionTimestamp().IsZero() && s.adopt(o)
}

// adopt takes over an object that nobody controls, in the very version that was judged. A refusal is only told: until it is
// ours, nothing else may be done to it.
func (e *engine[T]) adopt(
	ctx context.Context, p *Pass[T], s *step, intent *apply.Intent, live client.Object,
) (bool, error) {
	if s.createOnly {
		return e.sign(ctx, p, s, live)
	}
	stored := e.view.answer(s)
	if err := e.owner.Update(ctx, e.client, intent, live, stored); err != nil {
		return false, e.rejected(p, s, intent, err)
	}
	e.stored(p, s, "", intent, stored)
	return true, nil
}

// sign makes an object a child, or one that outlives its parent or no longer does, whose content is not changed.
func (e *engine[T]) sign(ctx context.Context, p *Pass[T], s *step, live client.Object) (bool, error) {
	bare := object.Empty(s.desired)
	bare.SetNamespace(s.key.Namespace)
	bare.SetName(s.key.Name)
	intent, err := e.view.intent(ctx, p.Object, &step{desired: bare, hold: s.hold, remote: s.remote, kept: s.kept})
	if err != nil {
		return false, err
	}
	stored := e.view.answer(s)
	if err := e.owner.Sign(ctx, e.client, intent, live, stored); err != nil {
		return false, e.rejected(p, s, intent, err)
	}
	e.stored(p, s, "", intent, stored)
	return true, nil
}

// conflict tells of an object in our way by the reason that the operator has for it.
func (s *step) conflict(err error) error {
	if _, ok := errors.AsType[*apply.NotOursError](err); !ok {
		return err
	}
	return &problem{class: classConflict, reason: cmp.Or(s.conflictReason, "ResourceConflict"), message: err.Error()}
}
