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
	err := demo.Check(t.Context(), databaseDemo, "../..",
		"2 of 2 members work, 100Gi each", "the primary is orders-db-db-0",
		"200Gi each", "the pods are the same as before", "refused: a volume does not become smaller",
		"and then the primary", "refused: the data of another major version cannot be read",
		"claims and Secret stay", "with the same password: state Ready, postgresql 16, 2 of 2 members work, 200Gi each",
		"The end.",
	)
	if err != nil {
		t.Fatal(err)
	}
}
