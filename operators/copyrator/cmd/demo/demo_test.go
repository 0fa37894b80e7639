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
	err := demo.Check(t.Context(), copyDemo, "../..",
		"all have it", "team-a has [color:blue]", "all follow", "all is restored", "team-b has [color:black]",
		"exists and has no owner", "there are 0 conflicts", "team-b has none", "still says color:green", "The end.",
	)
	if err != nil {
		t.Fatal(err)
	}
}
