package sandbox

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// The report of a program that ended has the last lines of its log, which say why.
func TestEndedProgramIsReportedWithItsLastLines(t *testing.T) {
	t.Parallel()
	stop, reports := make(chan struct{}), make(chan string, 10)
	s := &supervised{
		name: "operator widget", program: "/bin/sh", dir: t.TempDir(), logFile: filepath.Join(t.TempDir(), "log"),
		args:    []string{"-c", "for i in 1 2 3 4 5 6; do echo line $i; done; echo --registry-url is missing >&2; exit 3"},
		report:  func(format string, args ...any) { reports <- fmt.Sprintf(format, args...) },
		started: func(process.ID) {},
	}
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.supervise(stop)
	}()
	report := <-reports
	close(stop)
	<-ended
	if !strings.HasSuffix(report, "line 6\n  --registry-url is missing") || strings.Contains(report, "line 3") {
		t.Errorf("the report should end with the last four lines of the log: %s", report)
	}
}
