package desired

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// Pass is one reconcile of one object: its input and its record. It is not safe for concurrent use.
type Pass struct {
	Object     Object
	Log        logr.Logger
	Now        time.Time
	Namespaces []string

	// Replaced is called after Object was replaced. The operator's functions may be closures over a pass of their own type,
	// which must always have the same object. Nil before the first of them is called.
	Replaced func(Object)

	Record
}

// Replace replaces the object.
func (p *Pass) Replace(o Object) {
	p.Object = o
	if p.Replaced != nil {
		p.Replaced(o)
	}
}

// Compute calls the operator's function. A panic in it fails this object only. Of the changes that the function made to the
// object only those of the status are kept.
func Compute(
	ctx context.Context, o Object, p *Pass, f func(context.Context, *Pass) error,
) (err error) {
	defer func() {
		result := object.Copy(o)
		stored := ExternalOf(result)
		if stored == nil {
			object.SetStatus(result, p.Object)
		} else { // written by the engine only
			external := stored.External
			object.SetStatus(result, p.Object)
			ExternalOf(result).External = external
		}
		p.Replace(result)
	}()
	defer retry.RecoverPanic(ctx, &err)
	if err := f(ctx, p); err != nil {
		return err
	}
	if p.Err != nil {
		return retry.NewPanicError(p.Err)
	}
	return nil
}
