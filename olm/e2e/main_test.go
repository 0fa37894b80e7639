// Package e2e_test installs, upgrades and removes the operators with a real OLM v0.
package e2e_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/homeostat-dev/homeostat/olm/internal/build"
	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/testkit"
)

const (
	templates = "../templates"
	manifests = "../install/v0"
	released  = "../released"
	bundles   = "../../bundle"
	operators = "../../operators"
)

func TestMain(m *testing.M) {
	testkit.RunHelperProcess() // from another folder
	if err := build.All(context.Background(), "../..", notify); err != nil {
		log.Fatal(err)
	}
	testkit.Main(m, testkit.Env{Workloads: true, Private: true, Objects: v0.Objects(), AddToScheme: v0.AddToScheme})
}

// names returns the names of all operators that have a template.
func names(t *testing.T) []string {
	t.Helper()
	all, err := fixture.Operators(templates)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// previous finds the programs of the released bundles.
var previous = programs.PreviousRelease{Released: released, Notice: notify}

func notify(line string) { _, _ = fmt.Fprintln(os.Stderr, line) }
