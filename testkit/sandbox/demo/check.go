package demo

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// Check runs a demo and returns an error if it fails, or if its output lacks one of the texts. dir is the folder of the
// operator as seen from the caller. It is for the test of a demo; the test binary must have called
// sandbox.RunHelperProcess.
func Check(ctx context.Context, d Demo, dir string, want ...string) error {
	var out output
	d.Dir = dir
	if err := Run(ctx, d, &out); err != nil {
		return fmt.Errorf("%w\n%s", err, out.String())
	}
	text := out.String()
	for _, part := range want {
		if !strings.Contains(text, part) {
			return fmt.Errorf("the demo does not print %q; it prints:\n%s", part, text)
		}
	}
	return nil
}

// output is a buffer that is safe for concurrent use.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
