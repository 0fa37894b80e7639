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
	err := demo.Check(t.Context(), rolloutDemo, "../..",
		"taken in, and nothing was rolled", "an annotation of the ConfigMap: still template 1",
		"is rolled because of ConfigMap/nginx-conf",
		"one rollout for 5 changes", "and is rolled once more", "The end.",
	)
	if err != nil {
		t.Fatal(err)
	}
}
