// Package e2e_test installs, upgrades and removes the operators with a real OLM v0.
package e2e_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/homeostat-dev/homeostat/olm/internal/prepare"
	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	stages "github.com/homeostat-dev/homeostat/olm/internal/stage"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/testkit"
)

// Where things are.
const (
	templates = "../templates"
	manifests = "../install/v0"
	released  = "../released"
	bundles   = "../../bundle"
	operators = "../../operators"
)

func TestMain(m *testing.M) {
	testkit.RunHelperProcess() // from another folder
	if err := prepare.All(context.Background(), "../..", say); err != nil {
		log.Fatal(err)
	}
	testkit.Main(m, testkit.Env{Workloads: true, Private: true, Objects: v0.Objects(), AddToScheme: v0.AddToScheme})
}

// names are those of all operators that have a template.
func names(t *testing.T) []string {
	t.Helper()
	all, err := stages.Operators(templates)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// former has the programs of the bundles that were released.
var former = programs.Former{Released: released, Notice: say}

func say(line string) { _, _ = fmt.Fprintln(os.Stderr, line) }
