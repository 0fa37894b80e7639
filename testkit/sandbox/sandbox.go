package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
)

// readyInterval is how often the samples are looked at.
const readyInterval = 100 * time.Millisecond

// Options says what to run, and where.
type Options struct {
	// Projects are the operators.
	Projects []*Project
	// Nodes is how many simulated nodes there are at least; never fewer than 3.
	Nodes int
	// Assets has the programs of the control plane: at least cluster.Programs(cluster.Workloads).
	Assets assets.Set
	// Bare means that nothing is installed, and no operator started: pods of the projects run as processes once somebody
	// installs them. See RunPods.
	Bare bool
	// Existing is a cluster to use instead of a control plane of its own. Assets are not needed then.
	Existing *Existing
	// Dir is an existing empty folder for tokens and logs; Stop removes it. Empty means a new one under os.TempDir.
	Dir string
	// Report is told what happens, one line at a time, from any goroutine; nil means nobody wants to know.
	Report func(line string)
	// Started is called with the identity of each operator process.
	Started func(process.ID)
}

// A Sandbox is a cluster with operators. Its methods may be called from several goroutines.
type Sandbox struct {
	opts      Options
	dir       string // tokens and logs
	config    *rest.Config
	client    client.Client
	lease     *environment.Lease // nil for an existing cluster
	operators []*OperatorProcess
	pods      *Pods // nil if it is not bare

	stopped chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
}

// Start brings up the control plane, installs the operators and starts them. It does not wait for them to be ready.
// On an error nothing is left running.
func Start(ctx context.Context, opts Options) (*Sandbox, error) {
	if opts.Report == nil {
		opts.Report = func(string) {}
	}
	if opts.Started == nil {
		opts.Started = func(process.ID) {}
	}
	if opts.Dir == "" {
		dir, err := os.MkdirTemp("", "testkit-")
		if err != nil {
			return nil, fmt.Errorf("making a folder for the sandbox: %w", err)
		}
		opts.Dir = dir
	}
	s := &Sandbox{opts: opts, dir: opts.Dir, stopped: make(chan struct{})}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *Sandbox) start(ctx context.Context) error {
	if s.opts.Bare {
		return s.startBare(ctx)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.connect(groupCtx) })
	programs := make([]string, len(s.opts.Projects))
	for i, p := range s.opts.Projects {
		group.Go(func() (err error) {
			s.report("building operator %s", p.Name)
			programs[i], err = p.Build(groupCtx)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err //nolint:wrapcheck // says what it was doing
	}
	for i, p := range s.opts.Projects {
		if err := s.install(ctx, p); err != nil {
			return err
		}
		op, err := s.startOperator(ctx, p, programs[i])
		if err != nil {
			return err
		}
		s.operators = append(s.operators, op)
	}
	return nil
}

// startBare gets a cluster and runs what others install there.
func (s *Sandbox) startBare(ctx context.Context) (err error) {
	if err := s.connect(ctx); err != nil || len(s.opts.Projects) == 0 {
		return err
	}
	s.pods, err = RunPods(ctx, s.config, s.opts.Projects, PodsOptions{
		Dir: s.dir, Report: s.opts.Report, Started: s.opts.Started,
	})
	return err
}

// connect gets a cluster.
func (s *Sandbox) connect(ctx context.Context) (err error) {
	if s.opts.Existing != nil {
		err = s.join(ctx, s.opts.Existing)
	} else {
		err = s.acquire(ctx)
	}
	if err != nil {
		return err
	}
	if s.client, err = client.New(s.config, client.Options{}); err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	return nil
}

func (s *Sandbox) acquire(ctx context.Context) error {
	began := time.Now()
	lease, err := environment.Acquire(ctx, environment.Request{
		Tier: cluster.Workloads, Nodes: s.opts.Nodes, Binaries: s.opts.Assets.Dir, Private: true,
		Progress: s.opts.Report,
	})
	if err != nil {
		return err //nolint:wrapcheck // says what it was doing
	}
	s.lease, s.config = lease, lease.Config
	s.report("control plane ready at %s after %.1f s", s.config.Host, time.Since(began).Seconds())
	return nil
}

// install applies what an operator ships.
func (s *Sandbox) install(ctx context.Context, p *Project) error {
	s.report("installing operator %s", p.Name)
	if err := s.refuseDeployed(ctx, p); err != nil {
		return err
	}
	// Definitions and namespaces first: the rest may need them.
	var first, rest []*unstructured.Unstructured
	for _, u := range p.Objects {
		if kind := u.GetKind(); kind == "CustomResourceDefinition" || kind == "Namespace" {
			first = append(first, u)
		} else {
			rest = append(rest, u)
		}
	}
	if err := manifest.Install(ctx, s.config, append(first, rest...)); err != nil {
		return fmt.Errorf("installing operator %s: %w", p.Name, err)
	}
	return nil
}

// refuseDeployed keeps two copies of an operator from working against each other.
func (s *Sandbox) refuseDeployed(ctx context.Context, p *Project) error {
	deployed := &appsv1.Deployment{}
	err := s.client.Get(ctx, client.ObjectKeyFromObject(p.Deployment), deployed)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking whether operator %s runs in the cluster: %w", p.Name, err)
	case deployed.Spec.Replicas == nil || *deployed.Spec.Replicas > 0:
		return fmt.Errorf("operator %s already runs in this cluster, as Deployment %s: scale it to 0 first",
			p.Name, client.ObjectKeyFromObject(deployed))
	}
	return nil
}

// ApplySamples applies the samples of all operators, those without a namespace to the namespace default.
func (s *Sandbox) ApplySamples(ctx context.Context) error {
	for _, u := range s.Samples() {
		namespaced, err := s.client.IsObjectNamespaced(u)
		if err != nil {
			return fmt.Errorf("applying sample %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		if namespaced && u.GetNamespace() == "" {
			u.SetNamespace("default")
		}
		s.report("applying sample %s %s", u.GetKind(), u.GetName())
		u = u.DeepCopy()
		if err := noteLastApplied(u); err != nil {
			return fmt.Errorf("applying sample %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		if err := manifest.Apply(ctx, s.client, u); err != nil {
			return err //nolint:wrapcheck // says what it was doing
		}
	}
	return nil
}

// noteLastApplied adds what `kubectl apply` writes down for the next time. A user who applies a sample again, maybe after a
// change, would else be warned, and a field that is not in the file any more would stay.
func noteLastApplied(u *unstructured.Unstructured) error {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{} // as kubectl has it
	}
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	u.SetAnnotations(annotations)
	data, err := json.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	annotations[corev1.LastAppliedConfigAnnotation] = string(data) + "\n"
	u.SetAnnotations(annotations)
	return nil
}

// WaitReady returns when all samples are ready. When ctx ends first, the error says which are not, and why.
func (s *Sandbox) WaitReady(ctx context.Context) error {
	for {
		missing := s.missing(ctx)
		if missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the samples to be ready: %w; %s", ctx.Err(), missing)
		case <-s.Lost():
			return fmt.Errorf("waiting for the samples to be ready: %w", s.lease.Err())
		case <-time.After(readyInterval):
		}
	}
}

func (s *Sandbox) missing(ctx context.Context) string {
	for _, u := range s.Samples() {
		live := u.DeepCopy()
		err := s.client.Get(ctx, client.ObjectKeyFromObject(u), live)
		if err != nil {
			return fmt.Sprintf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
		if reason := readiness.Missing(live); reason != "" {
			return fmt.Sprintf("%s %s: %s", u.GetKind(), u.GetName(), reason)
		}
	}
	return ""
}

// Samples returns the samples of all operators, and none if it is bare.
func (s *Sandbox) Samples() []*unstructured.Unstructured {
	if s.opts.Bare {
		return nil
	}
	var samples []*unstructured.Unstructured
	for _, p := range s.opts.Projects {
		samples = append(samples, p.Samples...)
	}
	return samples
}

// Config returns a client configuration for the user of the kubeconfig. Copy it before changing it.
func (s *Sandbox) Config() *rest.Config { return s.config }

// Kubeconfig names the file for kubectl, with one context. It is gone when the sandbox is.
func (s *Sandbox) Kubeconfig() string {
	if s.lease == nil {
		return s.existingKubeconfig()
	}
	return filepath.Join(s.lease.Dir, "kubeconfig")
}

// Operators returns the operators in the order of Options.Projects, and none if it is bare.
func (s *Sandbox) Operators() []*OperatorProcess { return s.operators }

// Processes returns the processes of pods, if it is bare.
func (s *Sandbox) Processes() []PodProcess {
	if s.pods == nil {
		return nil
	}
	return s.pods.Processes()
}

// Lost is closed when the control plane ends although nobody stopped it; it never is for an existing cluster.
func (s *Sandbox) Lost() <-chan struct{} {
	if s.lease == nil {
		return nil
	}
	return s.lease.Lost()
}

// Err says why the control plane has ended. It may be called only after Lost is closed.
func (s *Sandbox) Err() error { return s.lease.Err() }

// Stop ends the operators in an orderly way, then the control plane, and returns when all are gone; they go even if ctx
// ends before. In an existing cluster everything that was installed stays. It may be called more than once.
func (s *Sandbox) Stop(ctx context.Context) error {
	var errs []error
	s.once.Do(func() {
		close(s.stopped)
		s.wg.Wait()
		if s.pods != nil {
			_ = s.pods.Stop() // what cannot be removed from the cluster goes with it
		}
		if s.lease != nil {
			errs = append(errs, s.lease.ReleaseAndWait(ctx))
		}
		errs = append(errs, os.RemoveAll(s.dir))
	})
	return errors.Join(errs...)
}

func (s *Sandbox) report(format string, args ...any) { s.opts.Report(fmt.Sprintf(format, args...)) }
