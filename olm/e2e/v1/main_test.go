// Package v1_test has a real OLM v1 install, upgrade and remove the operators: its two programs run beside the control
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

	"github.com/homeostat-dev/homeostat/olm/internal/prepare"
	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/olm/internal/stage"
	"github.com/homeostat-dev/homeostat/olm/internal/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// Where things are.
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
	if err := prepare.All(context.Background(), "../../..", say); err != nil {
		log.Fatal(err)
	}
	objects, err := v1.Objects(context.Background(), module)
	if err != nil {
		log.Fatal(err)
	}
	testkit.Main(m, testkit.Env{Workloads: true, Private: true, Objects: objects})
}

// lifecycle is a real OLM v1, and what runs the pods of operators. They are there as long as a test needs them.
var lifecycle struct {
	sync.Mutex
	users    int
	olm      *v1.OLM
	pods     *sandbox.Pods
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
	lifecycle.olm.Watch(t) // which looks at the logs before they go
	return lifecycle.olm
}

func launch(ctx context.Context, k *testkit.K) error {
	names, err := stage.Operators(templates)
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
	pods, err := sandbox.RunPods(ctx, k.Config, all, sandbox.PodsOptions{Program: former.Program, Report: say})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "olmv1") // OLM may outlive the test that starts it.
	if err == nil {
		lifecycle.olm, err = v1.Start(ctx, k.Config, v1.Options{Programs: module, Dir: dir, Notice: say})
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

// former has the programs of the bundles that were released.
var former = programs.Former{Released: released, Notice: say}

func say(line string) { _, _ = fmt.Fprintln(os.Stderr, line) }

// names are those of all operators that have a template.
func names(t *testing.T) []string {
	t.Helper()
	all, err := stage.Operators(templates)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
