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
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// farewell is how long it may take to tell the cluster that pods are not run any more.
const farewell = 10 * time.Second

// PodsOptions says how pods are run. The zero value will do.
type PodsOptions struct {
	// Dir is an existing folder for tokens and logs, which stays. Empty means a new one under os.TempDir, which goes with
	// Stop.
	Dir string
	// Report is told what happens, one line at a time, from any goroutine; nil means nobody wants to know.
	Report func(line string)
	// Started is called with the identity of each process.
	Started func(process.ID)
	// Program names the file of the program that an image runs, for example of a former version. An empty name, as nil,
	// means that of the project. It is called before the first pod of the image runs, and whenever another one starts.
	Program func(ctx context.Context, image string) (file string, err error)
}

// Pods runs the pods of some operators as processes on this machine. Its methods may be called from several goroutines.
type Pods struct {
	opts    PodsOptions
	dir     string
	ownsDir bool
	config  *rest.Config
	client  client.Client
	kubelet *kubelet.Kubelet
	gate    *gate

	projects map[string]*Project    // by the name of the image
	building map[string]*sync.Mutex // by the same

	ctx    context.Context //nolint:containedctx // the life of all that runs, which Stop ends
	cancel context.CancelFunc
	once   sync.Once
	wg     sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	running map[types.UID]*podProcess
}

// RunPods runs the pods of a cluster with simulated nodes whose image is that of one of the projects: the last part of its
// repository is the same, whatever registry and tag are. A pod of another image, and one that is not to be started again
// when it ends, stays simulated. Somebody else installs the operators, in whatever way.
//
// The program is built when a pod starts. It gets the arguments and the environment of the first container with the image,
// with addresses of this machine in those for metrics and probes; variables from ConfigMaps and Secrets are left out, and
// there are no volumes. Its token is one of the pod's ServiceAccount, bound to the pod: once the pod is gone it is good for
// nothing. Leader election takes place if the arguments say so; the namespace of its Lease, which a program outside of a
// pod cannot find out, is told by LEADER_ELECTION_NAMESPACE.
//
// The process is started again whenever it ends, and ended when the pod is deleted or has ended. The pod is Ready if the
// probe of the container succeeds. That holds for pods that are created after RunPods has returned; those that were there
// are run as well, and stay as Ready as the simulation has it.
//
// For each project and cluster there may be one at a time. Stop ends it; that ctx ends does not.
func RunPods(ctx context.Context, cfg *rest.Config, projects []*Project, opts PodsOptions) (*Pods, error) {
	p, err := newPods(cfg, projects, opts)
	if err != nil {
		return nil, fmt.Errorf("running pods: %w", err)
	}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	err = p.gate.open(ctx)
	if err == nil {
		err = p.watch(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("running pods: %w", err), p.Stop())
	}
	return p, nil
}

func newPods(cfg *rest.Config, projects []*Project, opts PodsOptions) (*Pods, error) {
	p := &Pods{
		opts: opts, dir: opts.Dir, projects: map[string]*Project{}, building: map[string]*sync.Mutex{},
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
		p.projects[name], p.building[name] = project, &sync.Mutex{}
	}
	if len(projects) == 0 {
		return nil, errors.New("there is no project")
	}
	p.config = rest.CopyConfig(cfg)
	p.config.QPS = -1 // the API server sets the pace
	var err error
	if p.client, err = client.New(p.config, client.Options{}); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	if p.kubelet, err = kubelet.New(p.config); err != nil {
		return nil, err //nolint:wrapcheck // says what it was doing
	}
	p.gate = &gate{client: p.client, images: slices.Sorted(maps.Keys(p.projects))}
	if p.dir == "" {
		p.ownsDir = true
		if p.dir, err = os.MkdirTemp("", "testkit-"); err != nil {
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

// watch returns when all pods that there are have been seen.
func (p *Pods) watch(ctx context.Context) error {
	clientset, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	informer := factory.Core().V1().Pods().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.see(o.(*corev1.Pod)) },    //nolint:forcetypeassert // nothing else comes
		UpdateFunc: func(_, o any) { p.see(o.(*corev1.Pod)) }, //nolint:forcetypeassert // nothing else comes
		DeleteFunc: func(o any) {
			if last, missed := o.(cache.DeletedFinalStateUnknown); missed {
				o = last.Obj
			}
			if pod, ok := o.(*corev1.Pod); ok {
				p.end(pod)
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

// see starts and ends what stands for a pod.
func (p *Pods) see(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		p.end(pod)
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
		e.live()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.running, pod.UID)
	})
}

func (p *Pods) end(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.running[pod.UID]; e != nil {
		e.gone.Store(true)
		e.end()
	}
}

func (p *Pods) program(project *Project, image string) (string, error) {
	if p.opts.Program != nil {
		if file, err := p.opts.Program(p.ctx, image); file != "" || err != nil {
			return file, err
		}
	}
	return project.Build(p.ctx)
}

// build returns the program of an image in a folder of the pod: what others build later is not what this pod runs.
func (p *Pods) build(image, file string) error {
	name := imageName(image)
	project := p.projects[name]
	p.building[name].Lock()
	defer p.building[name].Unlock()
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
		return err //nolint:wrapcheck // the caller says what it was doing
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700)
	if err != nil {
		return err //nolint:wrapcheck // the caller says what it was doing
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// A PodProcess is the process that stands for a pod.
type PodProcess struct {
	// Namespace and Name are those of the pod.
	Namespace, Name string
	// Project is the name of the operator.
	Project string
	// ProbeAddress and MetricsAddress are where the program was told to serve them.
	ProbeAddress, MetricsAddress string
	// LogFile has the output of all runs.
	LogFile string
	// Status is what the process is up to.
	Status
}

// Processes returns what runs now, or waits to, in the order of namespaces and names. A pod whose program is being built is
// among them, without a PID.
func (p *Pods) Processes() []PodProcess {
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

// Stop ends all processes in an orderly way and returns when they are gone. Their pods are not Ready any more. It may be
// called more than once.
func (p *Pods) Stop() error {
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), farewell)
		defer cancel()
		errs = append(errs, p.gate.close(ctx))
		if p.ownsDir {
			errs = append(errs, os.RemoveAll(p.dir))
		}
	})
	return errors.Join(errs...)
}

func (p *Pods) report(format string, args ...any) { p.opts.Report(fmt.Sprintf(format, args...)) }
