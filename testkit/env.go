package testkit

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
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
	"github.com/homeostat-dev/homeostat/testkit/internal/webhookconfig"
)

// Env describes the control plane that the tests of a package need. The zero value is a plain API server.
//
// With TESTKIT_KUBECONFIG set in the environment, the tests run on the cluster of that kubeconfig instead. Installed
// CRDs stay there. Tests that need a control plane of their own are skipped.
type Env struct {
	// CRDs is a file or a folder with the CustomResourceDefinitions to install. Packages with equal definitions share a
	// control plane; a package with another version of one of them gets another control plane.
	CRDs string
	// RBAC is a file or folder with the operator's ServiceAccount, Roles, ClusterRoles and bindings as they are
	// shipped. If it is empty, operators run as cluster administrator.
	RBAC string
	// NoUnusedRules fails the package if RBAC grants a permission that no operator started by Start or Run has used. A
	// permission with a wildcard fails it always, because its use cannot be determined. The check needs all tests of
	// the package to pass. It has no effect with -run, -skip or -short.
	NoUnusedRules bool
	// Rights is a Go file with markers +kubebuilder:rbac, such as "rights.go". NoUnusedRules then checks only the permissions
	// in these markers. It is for a package with the tests of one operator of a program that has several. Empty means all of
	// RBAC.
	Rights string
	// AllowedUnusedRules are permissions that NoUnusedRules leaves out, with the reason for shipping them untested. The keys
	// are the names that NoUnusedRules reports, such as "update leases.coordination.k8s.io".
	AllowedUnusedRules map[string]string
	// AdmissionPolicies is a file or folder with the admission policies that are shipped, such as one that limits the
	// operator's ServiceAccount. All tests run with them. They apply to the tests of other packages on the same control
	// plane as well.
	AdmissionPolicies string
	// Webhooks is a file or folder with the ValidatingWebhookConfigurations and MutatingWebhookConfigurations that are shipped.
	// Each test whose operators are started by Start or Run has copies of them, which are limited to its namespaces, and to
	// cluster-scoped objects whose names contain the name of its namespace. The API server calls the handlers that the
	// operators register with the manager's webhook server. While no operator of the test runs, such a request is rejected as
	// by a cluster; K.Client repeats it for up to K.Timeout. Not possible on the cluster of TESTKIT_KUBECONFIG.
	Webhooks string
	// Conversion converts the custom resources of CRDs with several versions, independently of the operators: all tests of the
	// package share the CRDs. Their conversion need not be set. Such a package has a control plane of its own.
	Conversion http.Handler
	// FS holds CRDs, RBAC, Webhooks and AdmissionPolicies, for example an embed.FS. Nil means the package's folder on disk.
	FS fs.FS
	// Objects are further cluster-wide objects to install, for example CustomResourceDefinitions as Go values.
	Objects []client.Object
	// AddToScheme registers the Go types of custom resources. The built-in types are always registered.
	AddToScheme func(*runtime.Scheme) error
	// Workloads adds controllers, a scheduler and simulated nodes, so that a Deployment gets pods and the pods run.
	Workloads bool
	// Nodes is the minimum number of simulated nodes. The default and the lower limit are 3.
	Nodes int
	// Real makes the nodes real: pods are containers. It replaces Workloads and Nodes.
	Real *RealNodes
	// Private requests a control plane that no other package uses. Prefer the option Private, for a single test.
	Private bool
}

// shared is the environment of this test binary. Main sets it, and the first New connects it.
var shared struct {
	env *Env

	once sync.Once
	conn *connection
	err  error

	usage rbac.Usage // of all operators
}

// Main runs the tests of a package and ends the process. Call it from TestMain, with no other code there. The control
// plane is started or joined by the first call of New, so that tests without a control plane stay fast.
//
// Tests on a control plane wait more than they compute. Unless -parallel is given, Main runs three times as many tests
// at once as the go command's default. With Real it does not, because containers compute.
func Main(m *testing.M, env Env) {
	environment.RunHelperProcess()
	ctrllog.SetLogger(logr.Discard()) // operators started by K.Start log to their test
	shared.env = &env
	watchPanics()
	defineUpdate()
	if env.Real == nil {
		if err := raiseParallelism(); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "testkit:", err)
			os.Exit(exitUsage)
		}
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
	// testsPerProcessor is the number of parallel tests per processor.
	testsPerProcessor = 3
)

// raiseParallelism raises the number of parallel tests, unless the user has set it.
func raiseParallelism() error {
	if !flag.Parsed() {
		flag.Parse()
	}
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	if err := flag.Set("test.parallel", strconv.Itoa(testsPerProcessor*goruntime.GOMAXPROCS(0))); err != nil {
		return fmt.Errorf("running more tests at once: %w", err)
	}
	return nil
}

// StartEnv does the work of Main for a program without tests, such as a command that explores operators. Until closeEnv
// is called, New works with any implementation of testing.TB. The program must have called RunHelperProcess.
func StartEnv(env Env) (closeEnv func()) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // client-go logs every injected failure
	shared.env = &env
	return func() {
		if shared.conn != nil {
			shared.conn.release()
		}
	}
}

// Config returns the administrator's client configuration of the control plane of Main or StartEnv.
func Config(ctx context.Context) (*rest.Config, error) {
	conn, err := connect(ctx, options{})
	if err != nil {
		return nil, err
	}
	return rest.CopyConfig(conn.config), nil
}

// RunHelperProcess turns the process into the server process of a control plane, if testkit started it for that
// purpose. A program that calls StartEnv must call it first in main.
func RunHelperProcess() { environment.RunHelperProcess() }

// scheme returns a new scheme for each call: registering types in a scheme that is in use is a data race.
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
	if err := e.localizeConversion(objects); err != nil {
		return nil, err
	}
	policies, err := e.read(e.AdmissionPolicies)
	if err != nil {
		return nil, err
	}
	objects = append(objects, policies...)
	for _, object := range e.Objects {
		u, err := manifest.FromObject(object, scheme)
		if err != nil {
			return nil, fmt.Errorf("reading Env.Objects: %w", err)
		}
		objects = append(objects, u)
	}
	return objects, nil
}

// conversion is the server of Env.Conversion. It ends with the process.
var conversion struct {
	once   sync.Once
	server *httptest.Server
}

// localizeConversion directs the API server to the conversion of the package.
func (e *Env) localizeConversion(crds []*unstructured.Unstructured) error {
	if e.Conversion == nil {
		return nil
	}
	conversion.once.Do(func() { conversion.server = httptest.NewTLSServer(e.Conversion) })
	for i, crd := range crds {
		local, err := webhookconfig.LocalizeConversion(crd, conversion.server.URL+conversionPath, certificateOf(conversion.server))
		if err != nil {
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", crd.GetName(), err)
		}
		crds[i] = local
	}
	return nil
}

func (e *Env) policy() (*rbac.Policy, error) {
	if e.RBAC == "" {
		return nil, nil //nolint:nilnil // no files, no policy: operators may do everything
	}
	objects, err := e.read(e.RBAC)
	if err != nil {
		return nil, err
	}
	return rbac.Parse(objects)
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
