package testkit

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	goruntime "runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/rbac"
)

// Env says what the tests of a package need. The zero value is a plain API server.
//
// With TESTKIT_KUBECONFIG set in the environment the tests run on the cluster of that kubeconfig instead. It keeps the
// installed CRDs; tests that need a control plane of their own are skipped.
type Env struct {
	// CRDs is a file, or a folder whose files are read, with the CustomResourceDefinitions to install. Packages
	// that need the same ones share them; a package that needs a different version of one gets another control plane.
	CRDs string
	// RBAC is a file or folder with the operator's ServiceAccount, Roles, ClusterRoles and bindings as they are
	// shipped. Empty means that operators run as a user who may do everything.
	RBAC string
	// NoUnusedRules fails the package if, when all its tests have passed, RBAC grants a right that no request of an operator
	// started by Start or Run has needed, or one with a wildcard, of which nobody can say that. It has no effect if only
	// some of the tests run, by -run, -skip or -short.
	NoUnusedRules bool
	// Unexercised are rights that NoUnusedRules leaves out, by the names under which it reports them, such as
	// "update leases.coordination.k8s.io", with the reason why they are shipped though no test needs them.
	Unexercised map[string]string
	// FS is where CRDs and RBAC are read, for example an embed.FS. Nil means the package's folder on disk.
	FS fs.FS
	// Objects are further cluster-wide objects to install, for example CustomResourceDefinitions that are Go values.
	Objects []client.Object
	// AddToScheme registers the Go types of custom resources. Those of Kubernetes itself are always known.
	AddToScheme func(*runtime.Scheme) error
	// Workloads asks for controllers, a scheduler and simulated nodes, so that a Deployment gets pods and pods run.
	Workloads bool
	// Nodes is how many simulated nodes there are at least. There are never fewer than 3.
	Nodes int
	// Private asks for a control plane that no other package uses. Prefer the option of the same name for one test.
	Private bool
}

// shared is the environment of this test binary. It is set up by Main and connected to by the first New.
var shared struct {
	env *Env

	once sync.Once
	conn *connection
	err  error

	usage rbac.Usage // of all operators
}

// Main runs the tests of a package and ends the process; call it from TestMain and do nothing else there. The control
// plane is started, or joined, when the first test calls New, so that tests that need none stay fast.
//
// Tests on a control plane wait more than they compute, so unless -parallel is given, three times as many run at once as
// the go command's default has.
func Main(m *testing.M, env Env) {
	environment.RunHelperProcess()
	ctrllog.SetLogger(logr.Discard()) // operators started by k.Start log to their test
	shared.env = &env
	watchPanics()
	defineUpdate()
	if err := overlap(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "testkit:", err)
		os.Exit(exitUsage)
	}
	code := m.Run()
	if code == 0 && !env.checkRules(os.Stderr) {
		code = exitFailure
	}
	if shared.conn != nil {
		shared.conn.release()
	}
	os.Exit(code)
}

const (
	exitFailure = 1
	exitUsage   = 2
	// overlapping is how many tests run at once for each processor.
	overlapping = 3
)

// overlap raises the number of tests that run at once, unless the user has set it.
func overlap() error {
	if !flag.Parsed() {
		flag.Parse()
	}
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	if err := flag.Set("test.parallel", strconv.Itoa(overlapping*goruntime.GOMAXPROCS(0))); err != nil {
		return fmt.Errorf("running more tests at once: %w", err)
	}
	return nil
}

// StartEnv does what Main does for a program that is no test, such as one that explores operators: until close is called New
// works, with any implementation of testing.TB. It must have called RunHelperProcess.
func StartEnv(env Env) (closeEnv func()) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // client-go's complaints about requests that were failed on purpose
	shared.env = &env
	return func() {
		if shared.conn != nil {
			shared.conn.release()
		}
	}
}

// Config is the client configuration, with all rights, of the control plane that Main or Open describes.
func Config(ctx context.Context) (*rest.Config, error) {
	conn, err := connect(ctx, options{})
	if err != nil {
		return nil, err
	}
	return rest.CopyConfig(conn.config), nil
}

// RunHelperProcess turns the process into the keeper of a control plane if it was started to be one. A program that calls Open
// must call it first in main.
func RunHelperProcess() { environment.RunHelperProcess() }

// scheme makes a new scheme each time: registering types in one that is in use is a data race.
func (e *Env) scheme() (*runtime.Scheme, error) {
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme)
	if e.AddToScheme != nil {
		builder.Register(e.AddToScheme)
	}
	scheme := runtime.NewScheme()
	if err := builder.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering Go types: %w", err)
	}
	return scheme, nil
}

func (e *Env) objects(scheme *runtime.Scheme) ([]*unstructured.Unstructured, error) {
	objects, err := e.read(e.CRDs)
	if err != nil {
		return nil, err
	}
	for _, object := range e.Objects {
		u, err := manifest.FromObject(object, scheme)
		if err != nil {
			return nil, fmt.Errorf("reading Env.Objects: %w", err)
		}
		objects = append(objects, u)
	}
	return objects, nil
}

func (e *Env) policy() (*rbac.Policy, error) {
	if e.RBAC == "" {
		return nil, nil //nolint:nilnil // no files, no policy: operators may do everything
	}
	objects, err := e.read(e.RBAC)
	if err != nil {
		return nil, err
	}
	return rbac.Parse(objects) //nolint:wrapcheck // it says which object
}

func (e *Env) read(name string) ([]*unstructured.Unstructured, error) {
	switch {
	case name == "":
		return nil, nil
	case e.FS != nil:
		return manifest.ReadFS(e.FS, name, name)
	default:
		return manifest.Read(name)
	}
}
