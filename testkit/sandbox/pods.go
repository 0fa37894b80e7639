package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/tempfolder"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// shutdownTimeout bounds the status updates and cleanup when pods stop running.
const shutdownTimeout = 10 * time.Second

// PodsOptions configures RunPods. The zero value is valid.
type PodsOptions struct {
	// Dir is an existing folder for tokens and logs, kept after Stop. Empty means a new one under os.TempDir, removed
	// by Stop.
	Dir string
	// Report receives messages, one line at a time, from any goroutine; nil drops them.
	Report func(line string)
	// Started is called with the identity of each process.
	Started func(process.ID)
	// Program returns the program to run for an image, for example of an earlier version. An empty name or a nil
	// function means the program of the project. It is called before the start of each pod.
	Program func(ctx context.Context, image string) (file string, err error)
}

// PodRunner runs the pods of some operators as processes on this machine. It is safe for concurrent use.
type PodRunner struct {
	opts       PodsOptions
	dir        string
	ownsDir    bool
	config     *rest.Config
	client     client.Client
	kubelet    *kubelet.Kubelet
	gatePolicy *readinessGatePolicy

	projects   map[string]*Project    // by image name
	buildLocks map[string]*sync.Mutex // by image name

	ctx    context.Context //nolint:containedctx // ends with Stop
	cancel context.CancelFunc
	once   sync.Once
	wg     sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	running map[types.UID]*podProcess
}

// RunPods runs pods of a cluster with simulated nodes as processes, if their image is that of one of the projects.
// Images are equal if the last part of the repository is equal; registry and tag are ignored. Pods of other images and
// pods without restart policy Always stay simulated. The caller installs the operators, by any means.
//
// The program is built when a pod starts. It gets the arguments and the environment of the first container with the
// image, with the values of ConfigMaps and Secrets, which must exist unless they are optional. Variables from resource
// limits and files are left out. Addresses for metrics and probes are replaced by addresses of this machine. There are no
// volumes, except the Secret that OLM mounts as the certificate of a webhook server: its files are in the folder that the
// variable WEBHOOK_CERT_DIR contains. Its token belongs to the pod's ServiceAccount and is bound to the pod, so it becomes
// invalid with the pod. Leader election takes place if the arguments request it. A program outside of a pod cannot
// determine the namespace of the Lease, so the variable LEADER_ELECTION_NAMESPACE contains it.
//
// The process is restarted whenever it ends. It is stopped when the pod is deleted or has ended. The pod is Ready while
// the container's probe succeeds. That applies to pods created after RunPods has returned. Existing pods get a process
// as well, and their readiness stays simulated.
//
// At most one may run per project and cluster. Stop ends it; the end of ctx does not.
func RunPods(ctx context.Context, cfg *rest.Config, projects []*Project, opts PodsOptions) (*PodRunner, error) {
	p, err := newPodRunner(cfg, projects, opts)
	if err != nil {
		return nil, fmt.Errorf("running pods: %w", err)
	}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	err = p.gatePolicy.install(ctx)
	if err == nil {
		err = p.watch(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("running pods: %w", err), p.Stop())
	}
	return p, nil
}

func newPodRunner(cfg *rest.Config, projects []*Project, opts PodsOptions) (*PodRunner, error) {
	p := &PodRunner{
		opts: opts, dir: opts.Dir, projects: map[string]*Project{}, buildLocks: map[string]*sync.Mutex{},
		running: map[types.UID]*podProcess{},
	}
	if p.opts.Report == nil {
		p.opts.Report = func(string) {}
	}
	if p.opts.Started == nil {
		p.opts.Started = func(process.ID) {}
	}
	for _, project := range projects {
		name := imageName(project.Deployment.Spec.Template.Spec.Containers[0].Image)
		if name == "" {
			return nil, fmt.Errorf("the Deployment of operator %s has no image", project.Name)
		}
		if other := p.projects[name]; other != nil {
			return nil, fmt.Errorf("operators %s and %s both have the image %q", other.Name, project.Name, name)
		}
		p.projects[name], p.buildLocks[name] = project, &sync.Mutex{}
	}
	if len(projects) == 0 {
		return nil, errors.New("there is no project")
	}
	p.config = rest.CopyConfig(cfg)
	p.config.QPS = -1 // no client-side rate limit
	var err error
	if p.client, err = client.New(p.config, client.Options{}); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	if p.kubelet, err = kubelet.New(p.config); err != nil {
		return nil, err
	}
	p.gatePolicy = &readinessGatePolicy{client: p.client, images: slices.Sorted(maps.Keys(p.projects))}
	if p.dir == "" {
		p.ownsDir = true
		if p.dir, err = tempfolder.Make(); err != nil {
			return nil, fmt.Errorf("making a folder for pods: %w", err)
		}
	}
	return p, nil
}

// imageName returns the last part of an image's repository: "app" of "registry.example:5000/team/app:v1@sha256:12".
func imageName(image string) string {
	if image == "" {
		return ""
	}
	name, _, _ := strings.Cut(path.Base(image), "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// watch returns when all existing pods have been handled.
func (p *PodRunner) watch(ctx context.Context) error {
	clientset, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	informer := factory.Core().V1().Pods().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.handle(o.(*corev1.Pod)) },    //nolint:forcetypeassert // informers of pods deliver pods only
		UpdateFunc: func(_, o any) { p.handle(o.(*corev1.Pod)) }, //nolint:forcetypeassert // informers of pods deliver pods only
		DeleteFunc: func(o any) {
			if last, missed := o.(cache.DeletedFinalStateUnknown); missed {
				o = last.Obj
			}
			if pod, ok := o.(*corev1.Pod); ok {
				p.stopPod(pod)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	factory.Start(p.ctx.Done())
	p.wg.Go(func() {
		<-p.ctx.Done()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("watching pods: %w", ctx.Err())
	}
	return nil
}

// handle starts or stops the process of a pod.
func (p *PodRunner) handle(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		p.stopPod(pod)
		return
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		return
	}
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return p.projects[imageName(c.Image)] != nil })
	if i < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || p.running[pod.UID] != nil {
		return
	}
	e := newPodProcess(p, pod, &pod.Spec.Containers[i])
	p.running[pod.UID] = e
	p.wg.Go(func() {
		e.runProcess()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.running, pod.UID)
	})
}

func (p *PodRunner) stopPod(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.running[pod.UID]; e != nil {
		e.gone.Store(true)
		e.end()
	}
}

func (p *PodRunner) program(project *Project, image string) (string, error) {
	if p.opts.Program != nil {
		if file, err := p.opts.Program(p.ctx, image); file != "" || err != nil {
			return file, err
		}
	}
	return project.Build(p.ctx)
}

// build copies the program of an image to a file of the pod, so that later builds do not change it.
func (p *PodRunner) build(image, file string) error {
	name := imageName(image)
	project := p.projects[name]
	p.buildLocks[name].Lock()
	defer p.buildLocks[name].Unlock()
	program, err := p.program(project, image)
	if err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("copying the program of operator %s: %w", project.Name, err)
	}
	if os.Link(program, file) == nil {
		return nil
	}
	if err := copyProgram(program, file); err != nil { // it is on another file system
		return fmt.Errorf("copying the program of operator %s: %w", project.Name, err)
	}
	return nil
}

func copyProgram(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// A PodProcess describes the process that runs for a pod.
type PodProcess struct {
	// Namespace and Name identify the pod.
	Namespace, Name string
	// Project is the name of the operator.
	Project string
	// ProbeAddress and MetricsAddress are the addresses that the program serves them at.
	ProbeAddress, MetricsAddress string
	// LogFile contains the output of all runs.
	LogFile string
	// Status is the current status of the process.
	Status
}

// Processes returns the running and waiting processes, ordered by namespace and name. A pod with a pending build is
// included without a PID.
func (p *PodRunner) Processes() []PodProcess {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]PodProcess, 0, len(p.running))
	for _, e := range p.running {
		all = append(all, e.describe())
	}
	slices.SortFunc(all, func(a, b PodProcess) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Stop ends all processes gracefully and returns when they have ended. Their pods are not Ready any more. It may be
// called more than once.
func (p *PodRunner) Stop() error {
	var errs []error
	p.once.Do(func() {
		p.mu.Lock()
		p.stopped = true
		for _, e := range p.running {
			e.end()
		}
		p.mu.Unlock()
		p.cancel()
		p.wg.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), shutdownTimeout)
		defer cancel()
		errs = append(errs, p.gatePolicy.remove(ctx))
		if p.ownsDir {
			errs = append(errs, tempfolder.Remove(p.dir))
		}
	})
	return errors.Join(errs...)
}

func (p *PodRunner) report(format string, args ...any) { p.opts.Report(fmt.Sprintf(format, args...)) }
