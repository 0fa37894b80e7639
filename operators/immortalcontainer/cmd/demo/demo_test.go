package main

import (
	"os"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/sandbox"
	"github.com/homeostat-dev/homeostat/testkit/sandbox/demo"
)

func TestMain(m *testing.M) {
	sandbox.RunHelperProcess()
	os.Exit(m.Run())
}

func TestDemo(t *testing.T) {
	t.Parallel()
	err := demo.Check(t.Context(), immortalDemo, "../..",
		"Ready true, startTimes 1", "deleted pod", "with a new pod of that name: Ready true, startTimes 2",
		"killed process", "The end.",
	)
	if err != nil {
		t.Fatal(err)
	}
}
