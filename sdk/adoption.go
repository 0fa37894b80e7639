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
	stored := e.view.answer(s)
	take := e.owner.Update
	if s.createOnly { // its content is never changed
		bare := object.Empty(s.desired)
		bare.SetNamespace(s.key.Namespace)
		bare.SetName(s.key.Name)
		var err error
		if intent, err = e.view.intent(ctx, p.Object, &step{desired: bare, hold: s.hold, remote: s.remote}); err != nil {
			return false, err
		}
		take = e.owner.Sign
	}
	if err := take(ctx, e.client, intent, live, stored); err != nil {
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
