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
	definition := appDemo
	definition.Dir = "../.."
	if err := demo.Run(t.Context(), definition, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.b.String())
	}
	for _, want := range []string{
		"1 of 1 pods ready, image nginx:1.21, volume 1Gi", "it consists of Deployment my-web-app: Ready",
		"refused: a ReadWriteOnce volume cannot back several replicas", "3 of 3 pods ready", "has the image nginx:wrong",
		"volume 2Gi", "refused: a volume cannot become smaller", "stays and belongs to nobody",
		"the MyApp is gone; what is left: the claim", "there is a new one", "The end.",
	} {
		if !strings.Contains(out.b.String(), want) {
			t.Errorf("the demo does not say %q; it says:\n%s", want, out.b.String())
		}
	}
}
