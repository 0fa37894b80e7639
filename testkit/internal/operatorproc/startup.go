package operatorproc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrEnded is the error of [Startup.Wait] for a program that has ended without a request.
var ErrEnded = errors.New("the operator has ended, and has asked the API server for nothing before")

// ErrNoRequest is the error of [Startup.Wait] for a program that runs and sends no request.
var ErrNoRequest = errors.New("the operator has asked the API server for nothing")

const (
	// startupQuiet is the time without a request after which a program counts as started.
	startupQuiet = 100 * time.Millisecond
	// maxStartup is the limit for programs that never pause.
	maxStartup = 2 * time.Second
)

// Startup observes the start of a program by its requests. It is safe for concurrent use.
type Startup struct {
	once sync.Once
	sent chan struct{} // closed by the first request
	last atomic.Int64  // Unix time of the last request, in nanoseconds
}

// NewStartup returns the observation of a program that has sent no request.
func NewStartup() *Startup { return &Startup{sent: make(chan struct{})} }

// NoteRequest records that the program sends a request.
func (s *Startup) NoteRequest() {
	s.last.Store(time.Now().UnixNano())
	s.once.Do(func() { close(s.sent) })
}

// Wait returns when the program has sent its initial requests, so that its watches are open, or has ended after a request.
// The limit is for the first request, which takes an interpreter about a second. The error wraps [ErrEnded], [ErrNoRequest]
// or that of the context.
func (s *Startup) Wait(ctx context.Context, ended <-chan struct{}, limit time.Duration) error {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-s.sent:
	case <-ended:
		return ErrEnded
	case <-timeout.C:
		return fmt.Errorf("%w within %v: make it use the kubeconfig in KUBECONFIG, or write {kubeconfig} where its arguments "+
			"take one", ErrNoRequest, limit)
	case <-ctx.Done():
		return ctx.Err()
	}
	over := time.After(maxStartup)
	for {
		wait := startupQuiet - time.Since(time.Unix(0, s.last.Load()))
		if wait <= 0 {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-over:
			return nil
		case <-ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
