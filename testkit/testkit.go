package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/rbac"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/runname"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// DefaultTimeout is the default of K.Timeout. A successful wait returns earlier.
const DefaultTimeout = 30 * time.Second

// K is one test's view of a control plane: a namespace of its own, and methods that act in it. Methods fail the test on
// errors, so they must be called from the test's goroutine.
type K struct {
	// Client reads and writes the API server directly, without a cache, as cluster administrator.
	Client client.WithWatch
	// Config is the administrator's client configuration. Copy it before changing it.
	Config *rest.Config
	// Namespace belongs to this test alone. It is deleted after the test, with its contents.
	Namespace string
	// Kubelet scripts the pods of the test.
	Kubelet *NamespacedKubelet
	// Timeout bounds each call that waits, such as Eventually.
	Timeout time.Duration

	t         testing.TB
	conn      *connection
	admin     client.WithWatch // testkit's own requests, not observed
	obs       *observation     // nil if the test is not observed
	namespace *corev1.Namespace
	running   []*Instance
	cleanup   []client.Object // cluster-wide objects that the test applied
	usage     rbac.Usage      // of its operators' permissions
	servers   []*httptest.Server
	files     string    // see folder
	webhooks  *webhooks // nil before the first operator, and without Env.Webhooks
}

// An Option changes the K that New returns.
type Option func(*options)

type options struct {
	private         bool
	transport       func(http.RoundTripper) http.RoundTripper
	disabledOracles []Oracle
	reasons         []string
}

// Private gives the test a control plane of its own, which takes some seconds. It is for changes that all tests of a
// shared control plane would see, such as cluster-wide objects.
func Private() Option { return func(o *options) { o.private = true } }

// WithClientTransport puts a transport between K's own Client and the API server, for example one that records.
// Operators started by K do not use it; see [WithTransport].
func WithClientTransport(transport func(http.RoundTripper) http.RoundTripper) Option {
	return func(o *options) { o.transport = transport }
}

// New creates a namespace for the test on the control plane that Main's Env describes. When the test and its subtests
// are done, it stops the operators that the test started and deletes the namespace.
func New(t testing.TB, opts ...Option) *K {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if skip, err := shared.env.checkRealNodes(); err != nil {
		t.Fatal(err)
	} else if skip != nil {
		t.Skip(skip)
	}
	conn, err := connect(t.Context(), o)
	switch {
	case errors.Is(err, errPrivate):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	case o.private:
		t.Cleanup(func() { conn.release() })
	}
	k := &K{
		Config: rest.CopyConfig(conn.config), Timeout: DefaultTimeout, Namespace: runname.New(t.Name()),
		t: t, conn: conn, admin: conn.client, obs: observe(t),
	}
	k.Kubelet = &NamespacedKubelet{k: k}
	if err := k.obs.exempt(o); err != nil {
		t.Fatal(err)
	}
	if err := k.connect(o); err != nil {
		t.Fatalf("%v", err)
	}
	if err := k.createNamespace(); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(k.close)
	return k
}

// connect creates the test's own client and starts following its namespace.
func (k *K) connect(o options) (err error) {
	if o.transport != nil {
		k.Config.Wrap(o.transport)
	}
	cfg := rest.CopyConfig(k.Config)
	if k.obs != nil {
		historyRecorder, err := k.conn.recorder()
		if err != nil {
			return err
		}
		k.obs.follow(k.Namespace, historyRecorder)
		// The interceptor reads JSON only.
		cfg.ContentType = runtime.ContentTypeJSON
		cfg.AcceptContentTypes = runtime.ContentTypeJSON
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return k.obs.user.Transport(0, next) })
	}
	if len(k.conn.webhooks) > 0 {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return patientTransport{next, k} })
	}
	k.Client, err = k.conn.clientFor(cfg)
	return err
}

// connect returns the package's control plane, or a private one for this test.
func connect(ctx context.Context, o options) (*connection, error) {
	if shared.env == nil {
		return nil, errors.New("testkit.New needs testkit.Main: " +
			"add `func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }` to the package")
	}
	if o.private {
		return shared.env.connect(ctx, true)
	}
	shared.once.Do(func() {
		// Not the test's context: the connection outlives the first test that needs it.
		shared.conn, shared.err = shared.env.connect(context.Background(), shared.env.Private)
	})
	return shared.conn, shared.err
}

// Context returns the test's context.
func (k *K) Context() context.Context { return k.t.Context() }

// Record returns a copy of cfg and a recorder of its requests.
func (k *K) Record(cfg *rest.Config) (*rest.Config, *recorder.Recorder) {
	r := recorder.New()
	return r.Wrap(cfg), r
}

func (k *K) createNamespace() error {
	k.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}}
	if err := k.admin.Create(k.Context(), k.namespace); err != nil {
		return fmt.Errorf("creating the test's namespace: %w", err)
	}
	if !k.conn.env.Workloads && k.conn.env.Real == nil {
		return nil
	}
	// A controller creates this account after some milliseconds. Without it no pod can be created.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "default"}}
	s, err := k.watch(account, []Check{Exists()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(k.Context(), k.Timeout)
	defer cancel()
	if err := s.follow(ctx, func() bool { return s.unmet == "" }); err != nil {
		return fmt.Errorf("waiting for the default ServiceAccount of the test's namespace: %w", err)
	}
	return nil
}

// close runs after the test's context has ended.
func (k *K) close() {
	ctx, cancel := context.WithTimeout(context.Background(), k.Timeout)
	defer cancel()
	defer k.closeServers()
	defer k.closeWebhooks()
	found := k.obs.checkOracles()
	if k.conn.existing {
		k.closeExisting(ctx)
	} else {
		k.closeNamespace(ctx)
	}
	k.obs.reportViolations(append(found, k.checkAfterStop()...))
}

// closeNamespace leaves the contents of the namespace to the garbage collector.
func (k *K) closeNamespace(ctx context.Context) {
	if k.webhooks != nil && !k.operatorRuns() {
		k.webhooks.gate.Open() // no operator would admit the deletions
	}
	k.deleteClusterScoped(ctx)
	k.endWebhooks(ctx)
	k.stopOperators()
	k.releaseClusterScoped(ctx)
	// The operators that would remove finalizers from the contents have been stopped. The test does not wait for the
	// deletion.
	k.abandon(ctx, k.namespace)
	k.deleteObject(ctx, k.namespace)
}

// closeExisting lets the operators clean up: an existing cluster does not have testkit's garbage collector.
func (k *K) closeExisting(ctx context.Context) {
	defer k.stopOperators()
	k.deleteClusterScoped(ctx)
	k.deleteObject(ctx, k.namespace)
	for {
		err := k.admin.Get(ctx, client.ObjectKeyFromObject(k.namespace), k.namespace)
		if apierrors.IsNotFound(err) {
			return
		}
		select {
		case <-ctx.Done():
			k.t.Errorf("cleaning up: namespace %s is still there after %v: %v", k.Namespace, k.Timeout,
				k.namespace.Status.Conditions)
			return
		case <-time.After(pollInterval):
		}
	}
}

// checkAfterStop returns the violations that show only after the operators have stopped.
func (k *K) checkAfterStop() []report.Violation {
	if k.obs == nil {
		return nil
	}
	var found []report.Violation
	for _, op := range k.running {
		found = append(found, op.panics.violations(op)...)
		if !op.ended() || k.obs.tolerates(GoroutineLeak) {
			continue
		}
		for _, stack := range leakedStacks(op.label) {
			found = append(found, report.Violation{
				Oracle: string(GoroutineLeak), Detail: stack,
				Message: fmt.Sprintf("%s has ended, and %v later a goroutine of its is still there", op, leakTimeout),
			})
		}
	}
	return found
}

func (k *K) stopOperators() {
	for _, op := range k.running {
		op.Stop()
	}
}
