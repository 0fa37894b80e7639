package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// stopTimeout bounds the time between the end of an operator's context and the end of the operator.
const stopTimeout = 10 * time.Second

// SetupFunc registers an operator's controllers with a manager. The SetupWithManager method of most operators has this
// signature.
type SetupFunc func(mgr manager.Manager) error

// A StartOption changes how K.Start runs an operator.
type StartOption func(*startOptions)

type startOptions struct {
	config      *rest.Config
	clusterWide bool
	transport   func(http.RoundTripper) http.RoundTripper
	options     []func(*manager.Options)
}

// WithConfig runs the operator as the user of cfg instead of its own ServiceAccount.
func WithConfig(cfg *rest.Config) StartOption {
	return func(o *startOptions) { o.config = cfg }
}

// WithTransport puts a transport between the operator and the API server, for example one that fails requests. All of
// the operator's clients use it, including its informers. The operator's Recorder sees the responses of that transport.
func WithTransport(transport func(http.RoundTripper) http.RoundTripper) StartOption {
	return func(o *startOptions) { o.transport = transport }
}

// ClusterWide lets the operator watch all namespaces and grants it the permissions for that. In package chaos and package
// gen, the objects of other runs are hidden from such an operator. In a test of its own, it also acts on the objects of
// other tests: restrict it to the objects whose names contain [K.Namespace], or use [Private].
func ClusterWide() StartOption { return func(o *startOptions) { o.clusterWide = true } }

// WithManagerOptions changes the manager's options. It runs last, after testkit has set its own.
func WithManagerOptions(change func(*manager.Options)) StartOption {
	return func(o *startOptions) { o.options = append(o.options, change) }
}

// An Instance is an operator that runs in the test's process, or in a process of its own: see K.StartProgram.
type Instance struct {
	t            testing.TB
	recorder     *recorder.Recorder
	disconnected *atomic.Bool // no request leaves while true
	cancel       context.CancelFunc
	done         chan struct{}
	err          error // set before done is closed
	killed       bool
	log          *testLog
	obs          *observation
	process      int // the operator's number in the test, from 1
	label        string
	panics       *panics
	queue        *queue
}

// Panics returns the panics of the operator so far, each with its stack. It includes panics that controller-runtime and
// client-go recover from. It is safe for concurrent use.
func (op *Instance) Panics() []string { return op.panics.texts() }

// Start runs an operator in this process, in a manager of its own, and returns when its informers have synced. With
// leader election it returns at once, because the manager may never become the leader. The operator acts as the
// ServiceAccount of Env.RBAC with the permissions it ships, and watches only the test's namespace. It is stopped after
// the test. Several operators, and several instances of one, may run at once.
func (k *K) Start(setup SetupFunc, opts ...StartOption) *Instance {
	k.t.Helper()
	var o startOptions
	for _, opt := range opts {
		opt(&o)
	}
	op, err := k.start(setup, o)
	if err != nil {
		k.t.Fatalf("starting the operator: %v", err)
	}
	return op
}

func (k *K) start(setup SetupFunc, o startOptions) (*Instance, error) {
	op, cfg, err := k.prepare(o)
	if err != nil {
		return nil, err
	}
	if err := k.startWebhooks(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	op.cancel = cancel
	var mgr manager.Manager
	var elects bool
	pprof.Do(ctx, pprof.Labels(operatorLabel, op.label), func(ctx context.Context) {
		if mgr, elects, err = k.newManager(cfg, op, o); err != nil {
			return
		}
		if err = setup(observedManager{mgr, op.queue}); err != nil {
			err = fmt.Errorf("setting up its controllers: %w", err)
			return
		}
		k.running = append(k.running, op)
		k.obs.record("%s starts", op)
		go func() {
			defer close(op.done)
			op.err = mgr.Start(ctx)
		}()
	})
	if err != nil {
		cancel()
		return nil, err
	}
	if elects {
		return op, nil
	}
	return op, op.waitReady(k.Context(), mgr)
}

// prepare returns an operator that has not been started, and its client configuration.
func (k *K) prepare(o startOptions) (*Instance, *rest.Config, error) {
	cfg := o.config
	if cfg == nil {
		var err error
		if cfg, err = k.operatorConfig(o.clusterWide); err != nil {
			return nil, nil, err
		}
	}
	op := &Instance{
		t: k.t, recorder: recorder.New(), disconnected: &atomic.Bool{}, done: make(chan struct{}),
		obs: k.obs, process: k.obs.process(), panics: &panics{}, queue: &queue{},
	}
	op.label = fmt.Sprintf("%s/%d", k.Namespace, op.process)
	op.log = &testLog{to: op.logged, queue: op.queue}
	cfg = rest.CopyConfig(cfg)
	if k.conn.policy != nil {
		cfg.Wrap(k.usage.Transport)
		cfg.Wrap(shared.usage.Transport)
	}
	if o.transport != nil {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return k.obs.inner(op.process, next) })
		cfg.Wrap(o.transport)
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return k.obs.outer(op.process, next) })
	cfg = op.recorder.Wrap(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &disconnectable{next: next, disconnected: op.disconnected}
	})
	return op, cfg, nil
}

// newManager also reports whether the manager elects a leader.
func (k *K) newManager(cfg *rest.Config, op *Instance, o startOptions) (mgr manager.Manager, elects bool, err error) {
	scheme, err := k.conn.env.scheme()
	if err != nil {
		return nil, false, err
	}
	options := manager.Options{
		Scheme:                  scheme,
		Logger:                  op.log.logger(),
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		Controller:              config.Controller{SkipNameValidation: new(true)},
		GracefulShutdownTimeout: new(stopTimeout),
	}
	if !o.clusterWide {
		options.Cache.DefaultNamespaces = map[string]cache.Config{k.Namespace: {}}
	}
	server := &webhookServer{mux: http.NewServeMux(), disconnected: op.disconnected}
	if k.webhooks != nil {
		k.webhooks.add(server)
		options.WebhookServer = server
	} else {
		options.WebhookServer = &unservedWebhooks{webhookServer: server, env: k.conn.env}
	}
	for _, change := range o.options {
		change(&options)
	}
	base := options.BaseContext
	options.BaseContext = func() context.Context { // reconcile functions see the values of this context
		ctx := context.Background()
		if base != nil {
			ctx = base()
		}
		return context.WithValue(ctx, panicsKey{}, op.panics)
	}
	mgr, err = manager.New(cfg, options)
	if err != nil {
		return nil, false, fmt.Errorf("making a manager: %w", err)
	}
	return mgr, options.LeaderElection, nil
}

// String returns the name of the operator within the test.
func (op *Instance) String() string {
	if op.process > 1 {
		return fmt.Sprintf("the operator (process %d)", op.process)
	}
	return "the operator"
}

// logged adds one line of the log to the observation, which a failed test prints.
func (op *Instance) logged(l logLine) {
	op.obs.log(op.process, l)
	if op.obs == nil || testing.Testing() && testing.Verbose() {
		op.t.Log(strings.TrimSpace(l.text + " " + l.more))
	}
}

// waitReady returns when the informers have synced, or the manager has ended.
func (op *Instance) waitReady(ctx context.Context, mgr manager.Manager) error {
	synced := make(chan bool, 1)
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	go func() {
		select {
		case <-mgr.Elected():
			synced <- mgr.GetCache().WaitForCacheSync(ctx)
		case <-ctx.Done():
			synced <- false
		}
	}()
	select {
	case ok := <-synced:
		if !ok {
			return errors.New("its informers are not in sync after " + DefaultTimeout.String() +
				": the log says what they wait for")
		}
		return nil
	case <-op.done:
		return fmt.Errorf("running: %w", op.err)
	}
}

// Requests returns the requests of the operator so far, without watches and leader election.
func (op *Instance) Requests() []recorder.Request { return op.recorder.Requests() }

// Recorder returns the record of all of the operator's requests.
func (op *Instance) Recorder() *recorder.Recorder { return op.recorder }

// Done is closed when the operator has ended, for any reason. An operator that ends by itself with an error fails the
// test.
func (op *Instance) Done() <-chan struct{} { return op.done }

// Stop ends the operator gracefully: reconciles in progress finish. It returns when the operator has ended. It fails
// the test if the operator does not end in time or has ended with an error before. It may be called more than once.
func (op *Instance) Stop() {
	op.t.Helper()
	op.obs.record("%s is stopped", op)
	op.cancel()
	op.wait()
	if op.err != nil && !op.killed {
		op.t.Errorf("the operator ended with an error: %v", op.err)
	}
}

// Kill ends the operator like a killed process: it sends no further request and its memory is lost. Kill returns when
// the operator has ended.
func (op *Instance) Kill() {
	op.t.Helper()
	op.obs.record("%s is killed", op)
	op.disconnected.Store(true)
	op.killed = true
	op.cancel()
	op.wait()
}

func (op *Instance) wait() {
	op.t.Helper()
	select {
	case <-op.done:
	case <-time.After(stopTimeout + time.Second):
		op.t.Errorf("the operator is still running %v after it was told to stop", stopTimeout)
	}
	op.log.close()
}

// ended reports whether the operator has ended.
func (op *Instance) ended() bool {
	select {
	case <-op.done:
		return true
	default:
		return false
	}
}

// disconnectable stops requests from leaving.
type disconnectable struct {
	next         http.RoundTripper
	disconnected *atomic.Bool
}

func (c *disconnectable) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.disconnected.Load() {
		return intercept.Disconnected(req)
	}
	return c.next.RoundTrip(req)
}
