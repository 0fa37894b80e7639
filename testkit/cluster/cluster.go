package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/internal/egress"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/tempfolder"
)

// startTimeout bounds the start of a control plane, which takes 3 s on two idle cores, and realStartTimeout that with real
// nodes, which takes 5 to 25 s. The rest is for busy machines.
const (
	startTimeout     = 90 * time.Second
	realStartTimeout = 5 * time.Minute
)

// defaultNodes is enough to test anti-affinity, and to distinguish "on every node" from "on some node".
const defaultNodes = 3

// AddressAnnotation is the annotation with the address, such as 127.0.0.1:9443, of the process that serves a Service or
// that runs for a pod. The API server calls a webhook of the Service there, with the name of the Service as server name. The
// annotation of a Service has precedence over those of its ready pods.
const AddressAnnotation = egress.AddressAnnotation

// A Tier selects the components of a cluster.
type Tier string

const (
	// API is etcd and kube-apiserver: objects are validated, defaulted, stored and watched; no controller runs.
	API Tier = "api"
	// Workloads adds kube-controller-manager, kube-scheduler and simulated nodes: pods are scheduled and become
	// Ready, but no container runs.
	Workloads Tier = "workloads"
	// Real has the controllers of Workloads and real nodes, whose pods are containers. It needs Linux and root.
	Real Tier = "real"
)

// Options configures Start.
type Options struct {
	// Tier defaults to API.
	Tier Tier
	// Nodes is the number of nodes of the Workloads and Real tiers; 0 means 3.
	Nodes int
	// NodePrograms is the folder with the programs of real nodes.
	NodePrograms string
	// Images are folders with the images of real nodes: files *.tar with OCI layouts. Nodes find them in place of
	// all registries.
	Images []string
	// NodeLease is the time after which a real node that does not renew its lease is not ready, in whole seconds; 0 means
	// 40 s.
	NodeLease time.Duration
	// RestartBackoff is the longest time that the kubelet of a real node waits before it starts a container again, in whole
	// seconds; 0 means 300 s.
	RestartBackoff time.Duration
	// Ingress starts an Ingress controller beside real nodes: see the default IngressClass and Service kube-system/ingress.
	Ingress bool
	// Metrics starts metrics-server beside real nodes, for HorizontalPodAutoscalers. Start does not wait for it.
	Metrics bool
	// Binaries is the folder with the programs: etcd and kube-apiserver; for Workloads also
	// kube-controller-manager, kube-scheduler and kwok.
	Binaries string
	// Dir is an existing empty folder for data, keys and logs; Stop removes it. Keep its path short, because it
	// contains a unix socket. Empty means a new folder under os.TempDir.
	Dir string
	// Progress receives short reports; nil drops them.
	Progress func(format string, args ...any)
	// Started is called for every child process as soon as it runs, so that its identity can be recorded.
	Started func(Component)
}

// A Component is one process of a control plane.
type Component struct {
	Name    string     `json:"name"`
	ID      process.ID `json:"id"`
	LogFile string     `json:"logFile"`
}

// A Cluster is a running control plane. It is safe for concurrent use.
type Cluster struct {
	opts      Options
	host      string
	token     string
	cert      certificate
	simulator *process.Process // of the nodes; only in the Workloads tier
	real      *realNetwork     // only in the Real tier

	ctx    context.Context //nolint:containedctx // of the goroutines that serve the control plane in this process
	cancel context.CancelFunc

	mu        sync.Mutex
	processes []*process.Process
	stopping  bool

	done chan struct{}
	err  error // set before done is closed
}

// Start starts a control plane and returns when it is ready. After an error no process runs and no file remains.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	c, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	timeout := startTimeout
	if c.opts.Tier == Real {
		timeout = realStartTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func prepare(opts Options) (*Cluster, error) {
	if opts.Tier == "" {
		opts.Tier = API
	}
	if tiers := []Tier{API, Workloads, Real}; !slices.Contains(tiers, opts.Tier) {
		return nil, fmt.Errorf("starting a control plane: unknown tier %q; there are %q", opts.Tier, tiers)
	}
	if opts.Nodes <= 0 {
		opts.Nodes = defaultNodes
	}
	if opts.Progress == nil {
		opts.Progress = func(string, ...any) {}
	}
	if opts.Started == nil {
		opts.Started = func(Component) {}
	}
	if opts.Tier == Real {
		if err := CheckReal(); err != nil {
			return nil, fmt.Errorf("starting a control plane: %w", err)
		}
		if opts.Nodes > spec.MaxNodes {
			return nil, fmt.Errorf("starting a control plane: there can be %d real nodes at most, not %d", spec.MaxNodes, opts.Nodes)
		}
	}
	if err := checkBinaries(opts); err != nil {
		return nil, err
	}
	if opts.Dir == "" {
		dir, err := tempfolder.Make()
		if err != nil {
			return nil, fmt.Errorf("making a folder for a control plane: %w", err)
		}
		opts.Dir = dir
	}
	cert, err := newCertificate()
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: opts, token: rand.Text(), cert: cert, done: make(chan struct{})}
	if opts.Tier == Real {
		c.real = c.newRealNetwork()
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Programs returns the programs of a tier, for assets.Options.Programs.
func Programs(tier Tier) []string {
	programs := []string{assets.Etcd, assets.APIServer}
	if tier != API {
		programs = append(programs, assets.ControllerManager, assets.Scheduler)
	}
	if tier == Workloads {
		programs = append(programs, assets.Kwok)
	}
	return programs
}

func checkBinaries(opts Options) error {
	for _, name := range Programs(opts.Tier) {
		if _, err := os.Stat(filepath.Join(opts.Binaries, name)); err != nil {
			return fmt.Errorf("finding %s for the %s tier: %w", name, opts.Tier, err)
		}
	}
	return nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.startAPI(ctx); err != nil {
		return err
	}
	start := map[Tier]func(context.Context) error{Workloads: c.startWorkloads, Real: c.startReal}[c.opts.Tier] // nil for API
	if start != nil {
		if err := start(ctx); err != nil {
			return err
		}
	}
	c.watchProcesses()
	return nil
}

// Config returns a new client configuration for a cluster administrator. It has no client-side rate limit.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{
		Host:            "https://" + c.host,
		BearerToken:     c.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: slices.Clone(c.cert.cert)},
		QPS:             -1,
		UserAgent:       "testkit",
		// Compression only costs time on one machine.
		DisableCompression: true,
	}
}

// Dir returns the folder that holds the control plane's data and logs.
func (c *Cluster) Dir() string { return c.opts.Dir }

// Done is closed when a component ends before Stop. Err returns the component and the reason.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err returns the reason, and nil until Done is closed.
func (c *Cluster) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Stop kills every process and removes the data: nothing but the network of real nodes needs a graceful end. It may be
// called more than once.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	c.cancel()
	var errs []error
	if c.real != nil {
		errs = append(errs, c.real.stop())
	}
	for _, p := range slices.Backward(c.processes) { // clients before servers, so that no client logs errors
		errs = append(errs, p.Kill())
	}
	c.processes = nil
	if err := tempfolder.Remove(c.opts.Dir); err != nil {
		errs = append(errs, fmt.Errorf("removing the control plane's data: %w", err))
	}
	return errors.Join(errs...)
}

// launch starts one component and adds it to the list.
func (c *Cluster) launch(name string, args ...string) (*process.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return nil, fmt.Errorf("starting %s: the control plane is being stopped", name)
	}
	p, err := process.Start(name, command(c.opts.Binaries, name, args), c.path(name+".log"))
	if err != nil {
		return nil, err
	}
	c.processes = append(c.processes, p)
	c.opts.Started(Component{Name: name, ID: p.ID(), LogFile: p.LogFile})
	return p, nil
}

// watchProcesses reports the first component that ends by itself from now on.
func (c *Cluster) watchProcesses() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var once sync.Once
	for _, p := range c.processes {
		go func() {
			<-p.Done()
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.stopping {
				return
			}
			once.Do(func() {
				c.err = fmt.Errorf("%s ended unexpectedly (%s); the end of its log:\n%s",
					p.Name, p.Outcome(), p.Tail())
				close(c.done)
			})
		}()
	}
}

func (c *Cluster) path(name string) string { return filepath.Join(c.opts.Dir, name) }
