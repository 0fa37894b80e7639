package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/homeostat-dev/homeostat/sdk/bench/work"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// bench is the configuration of all measurements.
type bench struct {
	binaries string        // folder with the programs of the control plane
	programs string        // folder with the programs of the candidates
	profiles string        // folder for profiles; "" for none
	window   time.Duration // time in which unwanted requests are counted
	logf     func(format string, args ...any)
}

// measurement is one candidate with one number of objects on a control plane of its own.
type measurement struct {
	*bench
	candidate
	n int

	dir       string
	apiserver int // its process ID
	client    client.WithWatch
	metrics   rest.Interface
	process   *process
}

const (
	namespace       = "bench"
	timeout         = 15 * time.Minute // limit of one measurement
	parallelCreates = 8                // goroutines that create objects
)

// measure runs one candidate with n objects and returns the measured values.
func (b *bench) measure(ctx context.Context, c candidate, n int) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m := &measurement{bench: b, candidate: c, n: n}
	r, err := m.run(ctx)
	if err != nil {
		return r, fmt.Errorf("measuring %s with %d objects: %w", c.name, n, err)
	}
	return r, nil
}

func (m *measurement) run(ctx context.Context) (_ result, err error) {
	if m.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return result{}, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(m.dir) }() // a leftover is in the temporary folder
	plane, err := cluster.Start(ctx, cluster.Options{
		Tier: cluster.API, Binaries: m.binaries,
		Started: func(c cluster.Component) {
			if c.Name == "kube-apiserver" {
				m.apiserver = c.ID.PID
			}
		},
	})
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if err := m.connect(ctx, plane.Config()); err != nil {
		return result{}, err
	}
	if err := m.startCandidate(); err != nil {
		return result{}, err
	}
	defer func() { m.process.stop() }()
	if err := m.warmUp(ctx); err != nil {
		return result{}, err
	}
	r := result{Candidate: m.name, N: m.n}
	if err := m.converge(ctx, &r); err != nil || m.singlePass {
		return r, err
	}
	for _, phase := range []func(context.Context, *result) error{m.countIdleRequests, m.churn, m.drift, m.restart} {
		if err := phase(ctx, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// connect creates the clients, the CRD and the namespace.
func (m *measurement) connect(ctx context.Context, cfg *rest.Config) error {
	crd, err := work.CRD()
	if err != nil {
		return err
	}
	_, err = envtest.InstallCRDs(cfg, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}})
	if err != nil {
		return fmt.Errorf("installing the kind: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), work.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("registering types: %w", err)
	}
	if m.client, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	m.metrics = clients.RESTClient()
	err = m.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil {
		return fmt.Errorf("creating the namespace: %w", err)
	}
	raw, err := cluster.Kubeconfig(cfg)
	if err != nil {
		return err
	}
	return os.WriteFile(m.kubeconfig(), raw, 0o600)
}

func (m *measurement) kubeconfig() string { return filepath.Join(m.dir, "kubeconfig") }

func (m *measurement) startCandidate() (err error) {
	m.process, err = m.start(m.programs, m.kubeconfig(), filepath.Join(m.dir, "log"), m.profile())
	return err
}

// profile returns the file for the candidate's profile, or "" for none.
func (m *measurement) profile() string {
	if m.profiles == "" {
		return ""
	}
	return filepath.Join(m.profiles, fmt.Sprintf("%s-%d.pprof", m.name, m.n))
}

// profiled makes the candidate profile itself while f runs.
func (m *measurement) profiled(f func() error) error {
	if m.profiles == "" {
		return f()
	}
	toggle := func() error { return m.process.cmd.Process.Signal(syscall.SIGUSR1) }
	return errors.Join(toggle(), f(), toggle())
}

func database(name string) *work.Database {
	return &work.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       work.DatabaseSpec{Version: "17", Storage: "1Gi"},
	}
}

// warmUp creates one object and waits for it, so that the candidate runs with filled caches before the measurement.
func (m *measurement) warmUp(ctx context.Context) error {
	// Floor processes only objects that are created after its watch began.
	for watching := false; !watching; {
		if err := m.process.check(); err != nil {
			return err
		}
		var err error
		if watching, err = isWatched(ctx, m.metrics); err != nil {
			return err
		}
	}
	return m.create(ctx, []string{"warm-up"})
}

// create creates objects and returns when the status of each is Provisioned.
func (m *measurement) create(ctx context.Context, names []string) error {
	events, err := m.watch(ctx)
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	defer events.Stop()
	queue := make(chan string, len(names))
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
		queue <- name
	}
	close(queue)
	failed := make(chan error, parallelCreates)
	var wg sync.WaitGroup
	defer wg.Wait()
	for range parallelCreates {
		wg.Go(func() {
			for name := range queue {
				if err := m.client.Create(ctx, database(name)); err != nil {
					failed <- fmt.Errorf("creating %s: %w", name, err)
					return
				}
			}
		})
	}
	for len(missing) > 0 {
		select {
		case err := <-failed:
			return err
		case <-m.process.ended:
			return m.process.check()
		case <-ctx.Done():
			return fmt.Errorf("%d of %d objects were not provisioned in time: %w", len(missing), len(names), ctx.Err())
		case e, ok := <-events.ResultChan():
			if !ok || e.Type == watch.Error {
				return fmt.Errorf("the watch ended: %w", apierrors.FromObject(e.Object))
			}
			if d, ok := e.Object.(*work.Database); ok && d.Status.State == work.StateProvisioned {
				delete(missing, d.Name)
			}
		}
	}
	return nil
}

// watch watches the objects. It resumes when the API server ends a watch.
func (m *measurement) watch(ctx context.Context) (watch.Interface, error) {
	var now work.DatabaseList
	if err := m.client.List(ctx, &now, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	return watchtools.NewRetryWatcherWithContext(ctx, now.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return m.client.Watch(ctx, &work.DatabaseList{}, &client.ListOptions{Namespace: namespace, Raw: &options})
		},
	})
}

// usageWhenIdle waits until the candidate is idle. It returns the API server's counts and the candidate's usage.
func (m *measurement) usageWhenIdle(ctx context.Context) (requests, usage, error) {
	if err := m.process.waitIdle(ctx); err != nil {
		return nil, usage{}, errors.Join(m.process.check(), err)
	}
	counted, err := countRequests(ctx, m.metrics)
	if err != nil {
		return nil, usage{}, err
	}
	used, err := usageOf(m.process.cmd.Process.Pid)
	return counted, used, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
