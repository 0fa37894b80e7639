package gen

import (
	"context"
	"fmt"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// panics are those of one operator's reconciles, which controller-runtime catches. A panic elsewhere ends the test binary.
type panics struct {
	mu    sync.Mutex
	first string
}

func (p *panics) get() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first
}

func (p *panics) add(value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == "" {
		p.first = fmt.Sprint(value)
	}
}

type panicsKey struct{}

// in makes a context by which the panics of what runs in it are known.
func (p *panics) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, panicsKey{}, p)
}

func init() { //nolint:gochecknoinits // a later change of the list would be a race with operators that run
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, func(ctx context.Context, value any) {
		if p, ok := ctx.Value(panicsKey{}).(*panics); ok {
			p.add(value)
		}
	})
}
