package sandbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
)

const (
	readyInterval  = 100 * time.Millisecond // between two reads of the samples
	reportInterval = 5 * time.Second        // between two reports of a sample that is not ready
	repeatInterval = 30 * time.Second       // between two equal reports
)

// WaitReady returns when all samples are ready. It reports one that is not, with the reason: a new reason every 5 s, the
// same one every 30 s. If ctx ends first, the error names it.
func (s *Sandbox) WaitReady(ctx context.Context) error {
	samples := s.Samples()
	var last string
	reported := time.Now()
	for {
		// The next round begins with the sample that is not ready. It reads no other one unless this one has become ready.
		i, missing := s.missing(ctx, samples)
		if missing == "" {
			return nil
		}
		samples = slices.Concat(samples[i:], samples[:i])
		if since := time.Since(reported); since >= repeatInterval || since >= reportInterval && missing != last {
			s.report("waiting for %s", missing)
			last = missing
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

// missing returns the index of the first sample that is not ready, and names it with the reason, or returns "".
func (s *Sandbox) missing(ctx context.Context, samples []*unstructured.Unstructured) (int, string) {
	for i, u := range samples {
		live := u.DeepCopy()
		err := s.client.Get(ctx, client.ObjectKeyFromObject(u), live)
		if err != nil {
			return i, fmt.Sprintf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
		if reason := readiness.Missing(live); reason != "" {
			return i, fmt.Sprintf("%s %s: %s", u.GetKind(), u.GetName(), reason)
		}
	}
	return 0, ""
}
