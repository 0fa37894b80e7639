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

// output is a writer for concurrent use.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// The demo checks its results itself; this test checks its output.
func TestDemo(t *testing.T) {
	t.Parallel()
	var out output
	d := databaseDemo
	d.Dir = "../.."
	if err := demo.Run(t.Context(), d, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.b.String())
	}
	for _, want := range []string{
		"2 of 2 members work, 100Gi each", "the primary is orders-db-db-0",
		"200Gi each", "the pods are the same as before", "refused: a volume does not become smaller",
		"and then the primary", "refused: the data of another major version cannot be read",
		"claims and Secret stay", "with the same password", "The end.",
	} {
		if !strings.Contains(out.b.String(), want) {
			t.Errorf("the demo does not say %q; it says:\n%s", want, out.b.String())
		}
	}
}
