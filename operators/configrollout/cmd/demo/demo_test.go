package main

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/sandbox/demo"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.RunHelperProcess()
	os.Exit(m.Run())
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

// The demo checks its results itself; this test checks the printed report.
func TestDemo(t *testing.T) {
	t.Parallel()
	var out output
	definition := rolloutDemo
	definition.Dir = "../.."
	if err := demo.Run(t.Context(), definition, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.b.String())
	}
	for _, want := range []string{
		"taken in, and nothing was rolled", "an annotation of the ConfigMap: still template 1",
		"is rolled because of ConfigMap/nginx-conf",
		"one rollout for 5 changes", "and is rolled once more", "The end.",
	} {
		if !strings.Contains(out.b.String(), want) {
			t.Errorf("the demo does not say %q; it says:\n%s", want, out.b.String())
		}
	}
}
