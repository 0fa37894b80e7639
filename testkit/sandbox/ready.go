package sandbox

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
)

const (
	readyInterval  = 100 * time.Millisecond // between two reads of the samples
	reportInterval = 5 * time.Second        // between two reports of a sample that is not ready
)

// WaitReady returns when all samples are ready. Every 5 s it reports one that is not, with the reason. If ctx ends first,
// the error names it.
func (s *Sandbox) WaitReady(ctx context.Context) error {
	reported := time.Now()
	for {
		missing := s.missing(ctx)
		if missing == "" {
			return nil
		}
		if time.Since(reported) >= reportInterval {
			s.report("waiting for %s", missing)
			reported = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the samples to be ready: %w; %s", ctx.Err(), missing)
		case <-s.Done():
			return fmt.Errorf("waiting for the samples to be ready: %w", s.lease.Err())
		case <-time.After(readyInterval):
		}
	}
}

// missing names a sample that is not ready, with the reason, or returns "".
func (s *Sandbox) missing(ctx context.Context) string {
	for _, u := range s.Samples() {
		live := u.DeepCopy()
		err := s.client.Get(ctx, client.ObjectKeyFromObject(u), live)
		if err != nil {
			return fmt.Sprintf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
		if reason := readiness.Missing(live); reason != "" {
			return fmt.Sprintf("%s %s: %s", u.GetKind(), u.GetName(), reason)
		}
	}
	return ""
}
