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
	err := demo.Check(t.Context(), appDemo, "../..",
		"1 of 1 pods ready, image nginx:1.21, volume 1Gi", "it consists of Deployment my-web-app: Ready",
		"refused: a ReadWriteOnce volume cannot back several replicas", "3 of 3 pods ready", "has the image nginx:wrong",
		"volume 2Gi", "refused: a volume cannot become smaller", "stays and has no owner",
		"the MyApp is gone; what is left: the claim", "there is a new one", "The end.",
	)
	if err != nil {
		t.Fatal(err)
	}
}
