package sandbox

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

const (
	// startInterval is how often a program that has just been started is asked whether it is ready, and probeInterval how
	// often after it has been.
	startInterval = 100 * time.Millisecond
	probeInterval = time.Second
	// probeTimeout is how long an answer may take, and probeFailures how many have to be bad in a row before the pod is not
	// Ready any more, as with a kubelet.
	probeTimeout  = 5 * time.Second
	probeFailures = 3
)

// Reasons why a pod waits for its process, by the names that a kubelet has for them.
const (
	creating     = "ContainerCreating"
	createFailed = "CreateContainerError"
	crashLoop    = "CrashLoopBackOff"
)

// A podProcess is the process that stands for a pod.
type podProcess struct {
	pods      *Pods
	pod       *corev1.Pod
	container *corev1.Container
	name      string // for people
	stop      chan struct{}
	end       func()      // closes stop, once
	gone      atomic.Bool // nobody has to be told of a pod that is gone

	mu      sync.Mutex // also keeps what is told in order
	state   kubelet.Process
	run     int // counts the runs of the process
	launch  launch
	process *supervised // nil before it has been started
}

func newPodProcess(pods *Pods, pod *corev1.Pod, container *corev1.Container) *podProcess {
	e := &podProcess{
		pods: pods, pod: pod, container: container, name: fmt.Sprintf("pod %s/%s", pod.Namespace, pod.Name),
		stop: make(chan struct{}), state: kubelet.Process{Container: container.Name},
	}
	e.end = sync.OnceFunc(func() { close(e.stop) })
	return e
}

// live is the life of the process. It returns when there is nothing left of it.
func (e *podProcess) live() {
	var helpers sync.WaitGroup
	defer func() {
		helpers.Wait()
		e.leave()
	}()
	p, ok := e.start(&helpers)
	if !ok {
		return
	}
	e.pods.report("%s runs as %s (pid %d), its log: %s", e.name, e.user(), p.Status().PID, p.logFile)
	helpers.Go(e.probe)
	p.supervise(e.stop)
	e.pods.report("%s has ended", e.name)
}

// start tries until the process has been started, or is not wanted any more.
func (e *podProcess) start(helpers *sync.WaitGroup) (*supervised, bool) {
	said := ""
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		p, err := e.tryStart(helpers)
		if err == nil {
			return p, true
		}
		select {
		case <-e.stop:
			return nil, false
		default:
		}
		if err.Error() != said {
			said = err.Error()
			e.pods.report("%s cannot start: %s", e.name, said)
		}
		e.tell(func(s *kubelet.Process) { s.Waiting, s.Message = createFailed, said })
		select {
		case <-e.stop:
			return nil, false
		case <-time.After(pause):
		}
	}
}

func (e *podProcess) tryStart(helpers *sync.WaitGroup) (*supervised, error) {
	project := e.project()
	e.tell(func(s *kubelet.Process) {
		if s.Waiting == "" { // what was wrong before stays in sight while it is tried again
			s.Waiting, s.Message = creating, "building operator "+project.Name
			e.pods.report("%s: building operator %s", e.name, project.Name)
		}
	})
	// The name of the program is what the API server takes for the manager of the fields that it writes.
	program := filepath.Join(e.file(".program"), project.Name)
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for the program: %w", err)
	}
	if err := e.pods.build(e.container.Image, program); err != nil {
		return nil, err
	}
	who := e.credentials()
	kubeconfig, expires, err := who.write(e.pods.ctx)
	if err != nil {
		return nil, err
	}
	l, err := newLaunch(e.container, e.environment(), map[string]string{"kubeconfig": kubeconfig}, e.field)
	if err != nil {
		return nil, err
	}
	if len(l.unknown) > 0 {
		e.pods.report("%s runs without %s, whose values are known in a cluster only", e.name, strings.Join(l.unknown, ", "))
	}
	p := &supervised{
		name: e.name, program: program, args: l.args, env: l.env, dir: project.Dir, logFile: e.logFile(),
		report: e.pods.report, started: e.pods.opts.Started, began: e.began, ended: e.ended,
	}
	e.mu.Lock()
	e.launch, e.process = l, p
	e.mu.Unlock()
	if err := p.run(); err != nil {
		return nil, err
	}
	helpers.Go(func() { who.refresh(expires, e.stop) })
	return p, nil
}

func (e *podProcess) project() *Project { return e.pods.projects[imageName(e.container.Image)] }

// account is the ServiceAccount of the pod.
func (e *podProcess) account() string {
	if name := e.pod.Spec.ServiceAccountName; name != "" {
		return name
	}
	return "default"
}

func (e *podProcess) credentials() *credentials {
	return &credentials{
		client: e.pods.client, config: e.pods.config, file: e.file(""), name: e.name, report: e.pods.report,
		account: client.ObjectKey{Namespace: e.pod.Namespace, Name: e.account()},
		pod: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: e.pod.Name, UID: e.pod.UID,
		},
	}
}

func (e *podProcess) user() string { return e.credentials().user() }

// environment is what the program finds beside the variables of its pod: nothing of whoever runs it but what it takes to
// run at all, and where the Lease of a leader election is. In a pod there is a file that says it.
func (e *podProcess) environment() []string {
	env := []string{"HOSTNAME=" + e.pod.Name, "LEADER_ELECTION_NAMESPACE=" + e.pod.Namespace}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GORACE", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// field returns what a field of the pod is.
func (e *podProcess) field(path string) (string, bool) {
	switch path {
	case "metadata.namespace":
		return e.pod.Namespace, true
	case "metadata.name":
		return e.pod.Name, true
	case "metadata.uid":
		return string(e.pod.UID), true
	case "spec.serviceAccountName":
		return e.account(), true
	case "spec.nodeName":
		return e.pod.Spec.NodeName, true
	}
	if key, ok := subscript(path, "metadata.annotations"); ok {
		return e.pod.Annotations[key], true
	}
	if key, ok := subscript(path, "metadata.labels"); ok {
		return e.pod.Labels[key], true
	}
	return "", false
}

// subscript returns the key in, for example, "metadata.labels['app']".
func subscript(path, of string) (string, bool) {
	key, ok := strings.CutPrefix(path, of+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(key, "']")
}

// began and ended are called for each run of the process, in turn.
func (e *podProcess) began() {
	e.tell(func(s *kubelet.Process) {
		e.run++
		s.Waiting, s.Message, s.Ready = "", "the process is not ready yet", !e.isProbed()
	})
}

func (e *podProcess) ended(how *os.ProcessState, pause time.Duration) {
	const bySignal = 128
	code := how.ExitCode()
	if status, ok := how.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = bySignal + int(status.Signal())
	}
	e.tell(func(s *kubelet.Process) {
		s.Waiting, s.Ready, s.ExitCode = crashLoop, false, int32(code) //nolint:gosec // a byte
		s.Message = fmt.Sprintf("back-off %v restarting the process, which ended (%s)", pause, how)
		s.Restarts++
	})
}

// isProbed says whether there is a probe that can be asked.
func (e *podProcess) isProbed() bool {
	p := e.container.ReadinessProbe
	return p != nil && p.HTTPGet != nil && p.HTTPGet.Scheme != corev1.URISchemeHTTPS
}

// probe says of the pod whether its process is ready, until that is not wanted any more.
func (e *podProcess) probe() {
	if !e.isProbed() {
		return
	}
	bad := 0
	for interval := startInterval; ; {
		select {
		case <-e.stop:
			return
		case <-time.After(interval):
		}
		run, was := e.current()
		if e.ask() {
			bad, interval = 0, probeInterval
		} else if bad++; bad < probeFailures && was {
			continue
		} else {
			interval = startInterval
		}
		ready := interval == probeInterval
		e.tell(func(s *kubelet.Process) {
			if e.run == run && s.Waiting == "" { // else it is about a run that is over
				s.Ready = ready
			}
		})
	}
}

func (e *podProcess) current() (run int, ready bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.run, e.state.Ready
}

// ask makes one request as a kubelet does.
func (e *podProcess) ask() bool {
	ctx, cancel := context.WithTimeout(e.pods.ctx, probeTimeout)
	defer cancel()
	url := "http://" + e.launch.probe + "/" + strings.TrimPrefix(e.container.ReadinessProbe.HTTPGet.Path, "/")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode >= http.StatusOK && response.StatusCode < http.StatusBadRequest
}

// tell changes what is known of the process, and writes it into the status of the pod.
func (e *podProcess) tell(change func(*kubelet.Process)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.state
	change(&e.state)
	if e.state == before || e.gone.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.pods.ctx), farewell)
	defer cancel()
	if err := e.pods.kubelet.Report(ctx, e.pod, e.state); err != nil && e.pods.ctx.Err() == nil {
		e.pods.report("%s: %v", e.name, err)
	}
}

// file names a file of this very pod: the next one of its name may start before it has ended.
func (e *podProcess) file(ending string) string {
	return filepath.Join(e.pods.dir, fmt.Sprintf("%s_%s_%s%s", e.pod.Namespace, e.pod.Name, e.pod.UID, ending))
}

func (e *podProcess) logFile() string {
	return filepath.Join(e.pods.dir, e.pod.Namespace+"_"+e.pod.Name+".log")
}

// leave removes what the process needed, but for its log.
func (e *podProcess) leave() {
	e.tell(func(s *kubelet.Process) { s.Ready, s.Message = false, "nobody runs its process any more" })
	for _, ending := range []string{".program", ".token", ".kubeconfig"} {
		if err := os.RemoveAll(e.file(ending)); err != nil {
			e.pods.report("%s: %v", e.name, err)
		}
	}
}

func (e *podProcess) describe() PodProcess {
	d := PodProcess{Namespace: e.pod.Namespace, Name: e.pod.Name, Project: e.project().Name, LogFile: e.logFile()}
	e.mu.Lock()
	defer e.mu.Unlock()
	d.ProbeAddress, d.MetricsAddress = e.launch.probe, e.launch.metrics
	if e.process != nil {
		d.Status = e.process.Status()
	}
	return d
}

// LogTail returns the end of the log, indented.
func (p PodProcess) LogTail() string { return process.Tail(p.LogFile) }
