// Package v1_test installs, upgrades and removes the operators with a real OLM v1. Its two programs run beside the control
// plane and pull bundles and catalogs from a registry in the test, as they do in a cluster.
package v1_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/olm/internal/build"
	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/olm/internal/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

const (
	module    = "../../programs/v1"
	templates = "../../templates"
	released  = "../../released"
	bundles   = "../../../bundle"
	operators = "../../../operators"
	manifests = "../../install/v1"
)

func TestMain(m *testing.M) {
	testkit.RunHelperProcess() // from another folder
	if err := build.All(context.Background(), "../../..", notify); err != nil {
		log.Fatal(err)
	}
	objects, err := v1.Objects(context.Background(), module)
	if err != nil {
		log.Fatal(err)
	}
	testkit.Main(m, testkit.Env{Workloads: true, Private: true, Objects: objects})
}

// lifecycle is a real OLM v1, and the runner of the operators' pods. They run as long as a test needs them.
var lifecycle struct {
	sync.Mutex
	users    int
	olm      *v1.OLM
	pods     *sandbox.PodRunner
	projects map[string]*sandbox.Project // by the name of the operator
	stop     func() error
}

// startOLM runs OLM until no test needs it any more.
func startOLM(t *testing.T, k *testkit.K) *v1.OLM {
	t.Helper()
	k.Timeout = 3 * time.Minute
	lifecycle.Lock()
	defer lifecycle.Unlock()
	if lifecycle.users == 0 {
		if err := launch(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	lifecycle.users++
	t.Cleanup(func() {
		lifecycle.Lock()
		defer lifecycle.Unlock()
		if lifecycle.users--; lifecycle.users == 0 {
			if err := lifecycle.stop(); err != nil {
				t.Error(err)
			}
		}
	})
	lifecycle.olm.Watch(t) // reads the logs before they are removed
	return lifecycle.olm
}

func launch(ctx context.Context, k *testkit.K) error {
	names, err := fixture.Operators(templates)
	if err != nil {
		return err
	}
	lifecycle.projects = map[string]*sandbox.Project{}
	var all []*sandbox.Project
	for _, name := range names {
		project, err := sandbox.Load(ctx, filepath.Join(operators, name))
		if err != nil {
			return err
		}
		lifecycle.projects[name] = project
		all = append(all, project)
	}
	pods, err := sandbox.RunPods(ctx, k.Config, all, sandbox.PodsOptions{Program: previous.Program, Report: notify})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "olmv1") // OLM may outlive the test that starts it
	if err == nil {
		lifecycle.olm, err = v1.Start(ctx, k.Config, v1.Options{Programs: module, Dir: dir, Notice: notify})
	}
	if err != nil {
		return errors.Join(err, pods.Stop(), os.RemoveAll(dir))
	}
	lifecycle.pods = pods
	lifecycle.stop = func() error {
		lifecycle.olm.Stop()
		return errors.Join(pods.Stop(), os.RemoveAll(dir))
	}
	return nil
}

// previous finds the programs of the released bundles.
var previous = programs.PreviousRelease{Released: released, Notice: notify}

func notify(line string) { _, _ = fmt.Fprintln(os.Stderr, line) }

// names returns the names of all operators that have a template.
func names(t *testing.T) []string {
	t.Helper()
	all, err := fixture.Operators(templates)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
