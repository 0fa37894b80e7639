// Package realnodes_test installs operators with a real OLM on real nodes: the operators are containers, and so is OLM v0,
// with the pods that serve its catalogs and unpack its bundles. OLM v1 is two processes beside the cluster.
package realnodes_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/olm/internal/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

const (
	programsV0 = "../../programs"
	programsV1 = "../../programs/v1"
	templates  = "../../templates"
	manifests  = "../../install"
	released   = "../../released"
	bundles    = "../../../bundle"
	operators  = "../../../operators"
	mailboxDir = "../../../sdk/e2e/mailbox"
	baseImages = "../../../build/images-base"
	images     = "../../../build/images-olm"
)

// The operators. That with webhooks is installed with the manifests of the other one, and in the same versions.
const (
	immortal = "immortalcontainer"
	mailbox  = "mailbox"
)

func TestMain(m *testing.M) {
	testkit.RunHelperProcess() // from another folder
	var objects []client.Object
	if runs() {
		var err error
		if objects, err = v1.Objects(context.Background(), programsV1); err != nil {
			log.Fatal(err)
		}
	}
	testkit.Main(m, testkit.Env{
		Objects: append(objects, v0.Objects()...), AddToScheme: v0.AddToScheme,
		Real: &testkit.RealNodes{Images: []string{baseImages, images}},
	})
}

// runs reports whether the tests run: they make images, which takes long, before testkit decides about the nodes.
func runs() bool { return os.Getenv("TESTKIT_NODES") == "1" }

// A suite is a cluster with real nodes that have all images.
type suite struct {
	*testkit.K
	*releases

	t     *testing.T
	began time.Time
}

// start returns a suite.
func start(t *testing.T) *suite {
	t.Helper()
	if !runs() {
		t.Skip("images for real nodes are not built without TESTKIT_NODES=1: see make test/nodes")
	}
	r, err := loadImages()
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{K: testkit.New(t), releases: r, t: t, began: time.Now()}
	s.Timeout = 5 * time.Minute
	return s
}

// loadImages makes the images before the first test starts the nodes.
var loadImages = sync.OnceValues(func() (*releases, error) { return makeImages(context.Background()) })

// logElapsed logs an event with the time since the suite began.
func (s *suite) logElapsed(what string) {
	s.t.Helper()
	s.t.Logf("%3.0f s: %s", time.Since(s.began).Seconds(), what)
}

func notify(line string) { _, _ = fmt.Fprintln(os.Stderr, line) }
