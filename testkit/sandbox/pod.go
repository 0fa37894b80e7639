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
	// startInterval is the probe interval before the program is ready, and probeInterval the interval afterwards.
	startInterval = 100 * time.Millisecond
	probeInterval = time.Second
	// probeTimeout bounds one probe. After probeFailures failures in a row the pod is not Ready any more, as with a
	// kubelet.
	probeTimeout  = 5 * time.Second
	probeFailures = 3
)

// Reasons for a waiting container, as a kubelet reports them.
const (
	creating     = "ContainerCreating"
	createFailed = "CreateContainerError"
	crashLoop    = "CrashLoopBackOff"
)

// A podProcess is the process that runs for a pod.
type podProcess struct {
	pods      *PodRunner
	pod       *corev1.Pod
	container *corev1.Container
	name      string // for messages
	stop      chan struct{}
	end       func()      // closes stop, once
	gone      atomic.Bool // the pod has ended and needs no status

	mu      sync.Mutex // also orders the status updates
	state   kubelet.ProcessState
	run     int // counts the runs of the process
	launch  launch
	process *supervised // nil before it has been started
}

func newPodProcess(pods *PodRunner, pod *corev1.Pod, container *corev1.Container) *podProcess {
	e := &podProcess{
		pods: pods, pod: pod, container: container, name: fmt.Sprintf("pod %s/%s", pod.Namespace, pod.Name),
		stop: make(chan struct{}), state: kubelet.ProcessState{Container: container.Name},
	}
	e.end = sync.OnceFunc(func() { close(e.stop) })
	return e
}

// runProcess runs the process for the life of the pod. It returns when the process and its files are gone.
func (e *podProcess) runProcess() {
	var helpers sync.WaitGroup
	defer func() {
		helpers.Wait()
		e.removeFiles()
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

// start retries until the process has been started or stop is closed.
func (e *podProcess) start(helpers *sync.WaitGroup) (*supervised, bool) {
	last := ""
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
		if err.Error() != last {
			last = err.Error()
			e.pods.report("%s cannot start: %s", e.name, last)
		}
		e.updateStatus(func(s *kubelet.ProcessState) {
			s.Waiting = createFailed
			s.Message = last
		})
		select {
		case <-e.stop:
			return nil, false
		case <-time.After(pause):
		}
	}
}

func (e *podProcess) tryStart(helpers *sync.WaitGroup) (*supervised, error) {
	project := e.project()
	e.updateStatus(func(s *kubelet.ProcessState) {
		if s.Waiting == "" { // a previous error stays visible during the next attempt
			s.Waiting = creating
			s.Message = "building operator " + project.Name
			e.pods.report("%s: building operator %s", e.name, project.Name)
		}
	})
	// The API server derives the field manager from the name of the program.
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
	flags := map[string]string{"kubeconfig": kubeconfig}
	webhooks, err := project.webhookFlags(flags, e.pod.Namespace)
	if err != nil {
		return nil, err
	}
	certificate := e.certificateSecret()
	if certificate != nil {
		if flags[certDirFlag], err = e.writeCertificate(e.pods.ctx, certificate); err != nil {
			return nil, err
		}
	}
	l, err := newLaunch(e.container, e.environment(), flags, sources{
		field: e.field, data: apiData(e.pods.ctx, e.pods.client, e.pod.Namespace),
	})
	if err != nil {
		return nil, err
	}
	if webhooks != "" {
		if err := register(e.pods.ctx, e.pods.client, e.pod.DeepCopy(), webhooks); err != nil {
			return nil, err
		}
	}
	if len(l.unknown) > 0 {
		e.pods.report("%s runs without %s, whose values only a kubelet knows", e.name, strings.Join(l.unknown, ", "))
	}
	p := &supervised{
		name: e.name, program: program, args: l.args, env: l.env, dir: project.Dir, logFile: e.logFile(),
		report: e.pods.report, started: e.pods.opts.Started, began: e.began, ended: e.ended,
	}
	e.mu.Lock()
	e.launch = l
	e.process = p
	e.mu.Unlock()
	if err := p.run(); err != nil {
		return nil, err
	}
	helpers.Go(func() { who.refresh(expires, e.stop) })
	if certificate != nil {
		helpers.Go(func() { e.refreshCertificate(certificate) })
	}
	return p, nil
}

func (e *podProcess) project() *Project { return e.pods.projects[imageName(e.container.Image)] }

// account returns the name of the pod's ServiceAccount.
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

// environment returns the environment besides the pod's variables. Of the caller's environment it keeps only the
// variables that programs need to run. It adds the namespace of the leader election Lease, which a file names in a pod.
func (e *podProcess) environment() []string {
	env := []string{"HOSTNAME=" + e.pod.Name, "LEADER_ELECTION_NAMESPACE=" + e.pod.Namespace}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GORACE", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// field returns a field of the pod.
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

// began and ended are called for each run of the process, alternately.
func (e *podProcess) began() {
	e.updateStatus(func(s *kubelet.ProcessState) {
		e.run++
		s.Waiting = ""
		s.Message = "the process is not ready yet"
		s.Ready = !e.isProbed()
	})
}

func (e *podProcess) ended(how *os.ProcessState, pause time.Duration) {
	const bySignal = 128
	code := how.ExitCode()
	if status, ok := how.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = bySignal + int(status.Signal())
	}
	e.updateStatus(func(s *kubelet.ProcessState) {
		s.Waiting = crashLoop
		s.Ready = false
		s.ExitCode = int32(code) //nolint:gosec // a byte
		s.Message = fmt.Sprintf("back-off %v restarting the process, which ended (%s)", pause, how)
		s.Restarts++
	})
}

// isProbed reports whether the container has a supported probe.
func (e *podProcess) isProbed() bool {
	p := e.container.ReadinessProbe
	return p != nil && p.HTTPGet != nil && p.HTTPGet.Scheme != corev1.URISchemeHTTPS
}

// probe reports the readiness of the process until stop is closed.
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
		if e.probeOnce() {
			bad, interval = 0, probeInterval
		} else if bad++; bad < probeFailures && was {
			continue
		} else {
			interval = startInterval
		}
		ready := interval == probeInterval
		e.updateStatus(func(s *kubelet.ProcessState) {
			if e.run == run && s.Waiting == "" { // otherwise it is about an earlier run
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

// probeOnce sends one probe request as a kubelet does.
func (e *podProcess) probeOnce() bool {
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

// updateStatus changes the state of the process and writes it to the status of the pod.
func (e *podProcess) updateStatus(change func(*kubelet.ProcessState)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.state
	change(&e.state)
	if e.state == before || e.gone.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.pods.ctx), shutdownTimeout)
	defer cancel()
	if err := e.pods.kubelet.Report(ctx, e.pod, e.state); err != nil && e.pods.ctx.Err() == nil {
		e.pods.report("%s: %v", e.name, err)
	}
}

// file returns a file name that is unique to this pod: a pod of the same name may start before this one has ended.
func (e *podProcess) file(ending string) string {
	return filepath.Join(e.pods.dir, fmt.Sprintf("%s_%s_%s%s", e.pod.Namespace, e.pod.Name, e.pod.UID, ending))
}

func (e *podProcess) logFile() string {
	return filepath.Join(e.pods.dir, e.pod.Namespace+"_"+e.pod.Name+".log")
}

// removeFiles removes the files of the process except its log.
func (e *podProcess) removeFiles() {
	e.updateStatus(func(s *kubelet.ProcessState) {
		s.Ready = false
		s.Message = "its process has ended, and is not started again"
	})
	for _, ending := range []string{".program", ".token", ".kubeconfig", ".certificate"} {
		if err := os.RemoveAll(e.file(ending)); err != nil {
			e.pods.report("%s: %v", e.name, err)
		}
	}
}

func (e *podProcess) describe() PodProcess {
	d := PodProcess{Namespace: e.pod.Namespace, Name: e.pod.Name, Project: e.project().Name, LogFile: e.logFile()}
	e.mu.Lock()
	defer e.mu.Unlock()
	d.ProbeAddress = e.launch.probe
	d.MetricsAddress = e.launch.metrics
	if e.process != nil {
		d.Status = e.process.Status()
	}
	return d
}

// LogTail returns the end of the log, indented.
func (p PodProcess) LogTail() string { return process.Tail(p.LogFile) }
