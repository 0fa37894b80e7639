package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
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
	"github.com/homeostat-dev/homeostat/testkit/internal/tempfolder"
)

// deploymentKind is the kind of the operators' Deployments.
var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// Options configures Start.
type Options struct {
	// Projects are the operators.
	Projects []*Project
	// Nodes is the minimum number of simulated nodes, with 3 as default and lower limit, or the number of real ones.
	Nodes int
	// Real makes the nodes real. Nil means that they are simulated, and that the operators run as processes.
	Real *RealNodes
	// Assets contains the programs of the control plane: at least cluster.Programs of the tier.
	Assets assets.Set
	// WithoutOperators installs nothing and starts no operator: pods of the projects run as processes once they are
	// installed. See RunPods.
	WithoutOperators bool
	// Existing is a cluster to use instead of a control plane of its own. Assets are not needed then.
	Existing *ExistingCluster
	// Dir is an existing empty folder for tokens and logs, removed by Stop. Empty means a new one under os.TempDir.
	Dir string
	// Report receives messages, one line at a time, from any goroutine; nil drops them.
	Report func(line string)
	// Started is called with the identity of each operator process.
	Started func(process.ID)
}

// A Sandbox is a cluster with operators. It is safe for concurrent use.
type Sandbox struct {
	opts      Options
	dir       string // tokens and logs
	config    *rest.Config
	client    client.Client
	lease     *environment.Lease // nil for an existing cluster
	operators []*OperatorProcess
	pods      *PodRunner // nil unless opts.WithoutOperators
	ingress   ingress

	stopped chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
}

// Start starts the control plane, installs the operators and starts them. It does not wait until they are ready. After
// an error nothing keeps running.
func Start(ctx context.Context, opts Options) (*Sandbox, error) {
	if opts.Report == nil {
		opts.Report = func(string) {}
	}
	if opts.Started == nil {
		opts.Started = func(process.ID) {}
	}
	if opts.Dir == "" {
		dir, err := tempfolder.Make()
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
	if s.opts.WithoutOperators && s.opts.Real == nil {
		return s.startWithoutOperators(ctx)
	}
	for _, p := range s.opts.Projects {
		if err := s.checkWebhooks(p); err != nil {
			return err
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.connect(groupCtx) })
	var programs []string
	group.Go(func() (err error) {
		programs, err = s.build(groupCtx)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if s.opts.Real != nil {
		return s.startInPods(ctx, programs)
	}
	operators := make([]*OperatorProcess, len(s.opts.Projects))
	err := s.forEachProject(ctx, func(ctx context.Context, i int, p *Project) (err error) {
		if err := s.install(ctx, p); err != nil {
			return err
		}
		operators[i], err = s.startOperator(ctx, p, programs[i])
		return err
	})
	if err == nil {
		s.operators = operators
	}
	return err
}

// forEachProject calls a function for all projects at the same time, with the index of each.
func (s *Sandbox) forEachProject(ctx context.Context, f func(context.Context, int, *Project) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range s.opts.Projects {
		group.Go(func() error { return f(ctx, i, p) })
	}
	return group.Wait()
}

// build compiles the programs of all operators and returns their files in the order of the projects.
func (s *Sandbox) build(ctx context.Context) ([]string, error) {
	for _, p := range s.opts.Projects {
		s.report("building operator %s", p.Name)
	}
	return buildAll(ctx, s.opts.Projects, s.opts.Real != nil)
}

// startWithoutOperators connects to a cluster and runs the projects' pods once they are installed.
func (s *Sandbox) startWithoutOperators(ctx context.Context) (err error) {
	if err := s.connect(ctx); err != nil || len(s.opts.Projects) == 0 {
		return err
	}
	s.pods, err = RunPods(ctx, s.config, s.opts.Projects, PodsOptions{
		Dir: s.dir, Report: s.opts.Report, Started: s.opts.Started,
	})
	return err
}

// connect starts or joins a cluster.
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
	request := environment.Request{
		Tier: cluster.Workloads, Nodes: s.opts.Nodes, Binaries: s.opts.Assets.Dir, Private: true,
		Progress: s.opts.Report,
	}
	if nodes := s.opts.Real; nodes != nil {
		request.Tier = cluster.Real
		request.Real = nodes.request()
	}
	lease, err := environment.Acquire(ctx, request)
	if err != nil {
		return err
	}
	s.lease = lease
	s.config = lease.Config
	if err := s.serveIngress(); err != nil {
		return err
	}
	s.report("control plane ready at %s after %.1f s", s.config.Host, time.Since(began).Seconds())
	return nil
}

// install applies the objects that an operator ships.
func (s *Sandbox) install(ctx context.Context, p *Project) error {
	s.report("installing operator %s", p.Name)
	if err := s.refuseDeployed(ctx, p); err != nil {
		return err
	}
	// Definitions and namespaces first: other objects may need them.
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

// refuseDeployed returns an error if the operator already runs in the cluster: two instances would work against each
// other.
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

// ApplySamples applies the samples of all operators: those of one operator in their order, and those of several operators at
// the same time. Samples without a namespace are created in the namespace default. Samples that the nodes cannot serve are
// left out: see Project.
func (s *Sandbox) ApplySamples(ctx context.Context) error {
	leftOut, folder := s.leftOut()
	for _, u := range leftOut {
		s.report("leaving out sample %s %s, which config/%s does not have", u.GetKind(), u.GetName(), folder)
	}
	// The webhooks of one operator delay its samples until it runs.
	return s.forEachProject(ctx, func(ctx context.Context, _ int, p *Project) error {
		for _, u := range s.samplesOf(p) {
			if err := s.createSample(ctx, u); err != nil {
				return err
			}
		}
		return nil
	})
}

// createSample applies a sample, in the namespace default unless it has one.
func (s *Sandbox) createSample(ctx context.Context, u *unstructured.Unstructured) error {
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
	return s.applySample(ctx, u)
}

// noteLastApplied sets the annotation of `kubectl apply`. Without it kubectl would print a warning when a user applies
// a sample again, and would not remove fields that were deleted from the file.
func noteLastApplied(u *unstructured.Unstructured) error {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{} // as kubectl does
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

// Samples returns the samples of all operators for this cluster, or none with Options.WithoutOperators.
func (s *Sandbox) Samples() []*unstructured.Unstructured {
	var samples []*unstructured.Unstructured
	for _, p := range s.opts.Projects {
		samples = append(samples, s.samplesOf(p)...)
	}
	return samples
}

// samplesOf returns the samples of one operator.
func (s *Sandbox) samplesOf(p *Project) []*unstructured.Unstructured {
	if s.opts.WithoutOperators {
		return nil
	}
	leftOut, _ := s.leftOut()
	return slices.DeleteFunc(slices.Clone(p.Samples), func(u *unstructured.Unstructured) bool {
		return slices.Contains(leftOut, u)
	})
}

// leftOut returns the samples that the nodes of this cluster cannot serve, and the folder of config that leaves them out.
func (s *Sandbox) leftOut() (samples []*unstructured.Unstructured, folder string) {
	if s.opts.WithoutOperators || s.opts.Existing != nil {
		return nil, ""
	}
	folder = "simulated-nodes"
	if s.opts.Real != nil {
		folder = "real-nodes"
	}
	for _, p := range s.opts.Projects {
		if s.opts.Real != nil {
			samples = append(samples, p.SimulatedNodeSamples...)
		} else {
			samples = append(samples, p.RealNodeSamples...)
		}
	}
	return samples, folder
}

// Config returns a client configuration for the user of the kubeconfig. Copy it before changing it.
func (s *Sandbox) Config() *rest.Config { return s.config }

// Kubeconfig returns the file for kubectl, with one context. Stop removes it.
func (s *Sandbox) Kubeconfig() string {
	if s.lease == nil {
		return s.existingKubeconfig()
	}
	return filepath.Join(s.lease.Dir, "kubeconfig")
}

// Operators returns the operators in the order of Options.Projects, or none with Options.WithoutOperators.
func (s *Sandbox) Operators() []*OperatorProcess { return s.operators }

// Processes returns the processes of pods, or none without Options.WithoutOperators.
func (s *Sandbox) Processes() []PodProcess {
	if s.pods == nil {
		return nil
	}
	return s.pods.Processes()
}

// Done is closed when the control plane ends before Stop. For an existing cluster it is never closed.
func (s *Sandbox) Done() <-chan struct{} {
	if s.lease == nil {
		return nil
	}
	return s.lease.Done()
}

// Err returns the reason for the end of the control plane. It may be called only after Done is closed.
func (s *Sandbox) Err() error { return s.lease.Err() }

// Stop ends the operators gracefully, then the control plane, and returns when all have ended. They end even if ctx
// ends first. In an existing cluster all installed objects stay. It may be called more than once.
func (s *Sandbox) Stop(ctx context.Context) error {
	var errs []error
	s.once.Do(func() {
		close(s.stopped)
		s.wg.Wait()
		s.ingress.close()
		if s.pods != nil {
			_ = s.pods.Stop() // remaining objects disappear with the cluster
		}
		if s.lease != nil {
			errs = append(errs, s.lease.ReleaseAndWait(ctx))
		}
		errs = append(errs, tempfolder.Remove(s.dir))
	})
	return errors.Join(errs...)
}

func (s *Sandbox) report(format string, args ...any) { s.opts.Report(fmt.Sprintf(format, args...)) }
