package kitadapter

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/external"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/internal/webhookconfig"
)

// recordingTB is the testing.TB of one run. It passes failures and log lines to the run's space: a failed run is a finding,
// not a failure of the exploring test.
type recordingTB struct {
	testing.TB // nil: methods that are not overridden below must not be called

	space *space.Space

	mu      sync.Mutex
	skipped bool
}

// clusterWideTB is the testing.TB of a run whose operator works in all namespaces.
type clusterWideTB struct{ *recordingTB }

// ClusterWide makes package testkit grant ClusterRoleBindings in the whole cluster.
func (tb *clusterWideTB) ClusterWide() {}

// isolate runs f in a goroutine of its own, because FailNow ends its goroutine. It reports whether f has returned.
func isolate(f func()) (returned bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
		returned = true
	}()
	<-done
	return returned
}

// Explored keeps package testkit from recording and checking the operator, which the explorer does itself.
func (tb *recordingTB) Explored() {}

// AddExternal passes an HTTP service of the run to the explorer.
func (tb *recordingTB) AddExternal(s *external.Service) { tb.space.AddExternal(s) }

// SetWebhooks passes the webhooks of the run to the explorer.
func (tb *recordingTB) SetWebhooks(gate *webhookconfig.Gate) { tb.space.SetWebhooks(gate) }

func (tb *recordingTB) Name() string             { return tb.space.Name }
func (tb *recordingTB) Helper()                  {}
func (tb *recordingTB) Context() context.Context { return tb.space.Context() }
func (tb *recordingTB) Cleanup(f func())         { tb.space.Cleanup(f) }
func (tb *recordingTB) Failed() bool             { return tb.space.Failed() }

func (tb *recordingTB) Fail()                     { tb.space.Fail("it failed") }
func (tb *recordingTB) FailNow()                  { tb.Fail(); runtime.Goexit() }
func (tb *recordingTB) Error(a ...any)            { tb.space.Fail(fmt.Sprintln(a...)) }
func (tb *recordingTB) Errorf(f string, a ...any) { tb.space.Fail(fmt.Sprintf(f, a...)) }
func (tb *recordingTB) Fatal(a ...any)            { tb.Error(a...); runtime.Goexit() }
func (tb *recordingTB) Fatalf(f string, a ...any) { tb.Errorf(f, a...); runtime.Goexit() }

func (tb *recordingTB) Log(a ...any)            { tb.log(fmt.Sprintln(a...)) }
func (tb *recordingTB) Logf(f string, a ...any) { tb.log(fmt.Sprintf(f, a...)) }
func (tb *recordingTB) log(text string)         { tb.space.Log(time.Now(), strings.TrimSpace(text)) }

func (tb *recordingTB) Skip(...any)          { tb.SkipNow() }
func (tb *recordingTB) Skipf(string, ...any) { tb.SkipNow() }

func (tb *recordingTB) SkipNow() {
	tb.mu.Lock()
	tb.skipped = true
	tb.mu.Unlock()
	runtime.Goexit()
}

func (tb *recordingTB) Skipped() bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.skipped
}
