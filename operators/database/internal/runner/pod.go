//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Limits of the backoff between two runs of a container.
const minBackoff, maxBackoff = 100 * time.Millisecond, 5 * time.Second

// apiTimeout limits one request.
const apiTimeout = 10 * time.Second

// A pod is one that was scheduled to a node of the runner.
type pod struct {
	r      *Runner
	object *corev1.Pod // as it was scheduled
	number int

	// When activeCtx ends, nothing is started any more. When killCtx ends, all processes are killed.
	activeCtx, killCtx context.Context //nolint:containedctx // they live as long as the pod
	stopActive, kill   context.CancelFunc
	done               chan struct{} // closed when it is removed

	network *os.File
	address string

	mu        sync.Mutex
	status    corev1.PodStatus
	completed bool // no container will be started again
	running   map[string]*process
	runs      int
}

func newPod(r *Runner, object *corev1.Pod, number int) *pod {
	p := &pod{r: r, object: object, number: number, done: make(chan struct{}), running: map[string]*process{}}
	p.killCtx, p.kill = context.WithCancel(context.Background())
	p.activeCtx, p.stopActive = context.WithCancel(p.killCtx)
	p.status = initialStatus(object)
	return p
}

// directory returns the pod's directory, relative to the storage.
func (p *pod) directory() string { return fmt.Sprintf("pods/%d", p.number) }

// file returns the path of a pod's file outside of the sandbox.
func (p *pod) file(name string) string { return filepath.Join(p.r.sandbox.files, p.directory(), name) }

// terminate stops the pod within the grace period. It does not wait, and may be called again.
func (p *pod) terminate(grace time.Duration) {
	p.stopActive()
	if grace == 0 {
		p.kill()
		return
	}
	time.AfterFunc(grace, p.kill)
}

// runLifecycle runs the pod from its first container until it is deleted.
func (p *pod) runLifecycle() {
	defer close(p.done)
	defer p.r.removePod(p)
	if err := unsupported(&p.object.Spec); err != nil {
		p.r.t.Errorf("pod %s cannot be run here: %v", p.object.Name, err)
	} else if err := p.prepare(); err != nil {
		p.r.t.Errorf("preparing pod %s: %v", p.object.Name, err)
	} else {
		p.runAll()
		p.update(func() { p.completed = true })
	}
	<-p.activeCtx.Done()
	if p.network != nil {
		_ = p.network.Close()
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(p.object.UID))
	ctx, cancel := context.WithTimeout(context.Background(), apiTimeout)
	defer cancel()
	err := p.r.client.CoreV1().Pods(p.object.Namespace).Delete(ctx, p.object.Name, *options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !isUIDMismatch(err) {
		p.r.t.Errorf("removing pod %s: %v", p.object.Name, err)
	}
}

// prepare creates the network and the files that all containers share.
func (p *pod) prepare() error {
	var err error
	if p.network, p.address, err = p.r.sandbox.newNetwork(p.number); err != nil {
		return err
	}
	if err := makePublicDir(p.file("etc")); err != nil {
		return err
	}
	p.update(func() {
		p.status.PodIP = p.address
		p.status.PodIPs = []corev1.PodIP{{IP: p.address}}
		p.status.HostIP = gateway
		p.status.HostIPs = []corev1.HostIP{{IP: gateway}}
	})
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	return p.writeHosts(p.r.hosts)
}

// writeHosts replaces the pod's /etc/hosts atomically.
func (p *pod) writeHosts(hosts string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status.PodIP == "" {
		return nil
	}
	name := p.object.Name
	if s := p.object.Spec; s.Hostname != "" && s.Subdomain != "" {
		name = fmt.Sprintf("%s.%s.%s.svc.cluster.local %s", s.Hostname, s.Subdomain, p.object.Namespace, s.Hostname)
	}
	file := p.file("etc/hosts")
	return replaceFile(file, hosts+p.status.PodIP+" "+name+"\n")
}

// runAll runs the init containers one after the other, then the other containers concurrently, until none is restarted.
func (p *pod) runAll() {
	spec := &p.object.Spec
	for i := range spec.InitContainers {
		if !p.runWithRestarts(&spec.InitContainers[i], &p.status.InitContainerStatuses[i], true) {
			return
		}
	}
	var all sync.WaitGroup
	for i := range spec.Containers {
		all.Go(func() { p.runWithRestarts(&spec.Containers[i], &p.status.ContainerStatuses[i], false) })
	}
	all.Wait()
}

// runWithRestarts runs a container as often as the restart policy requires. It reports whether the last run succeeded.
func (p *pod) runWithRestarts(c *corev1.Container, s *corev1.ContainerStatus, initial bool) bool {
	for pause := minBackoff; ; pause = min(2*pause, maxBackoff) {
		code, err := p.runOnce(c, s)
		if p.activeCtx.Err() != nil {
			return false
		}
		again := true
		switch policy := p.object.Spec.RestartPolicy; {
		case err != nil: // it was not started
			p.update(func() { s.State = waiting("CreateContainerConfigError", err.Error()) })
		case code == 0 && (initial || policy != corev1.RestartPolicyAlways), policy == corev1.RestartPolicyNever:
			again = false
		}
		if !again {
			return code == 0
		}
		if err == nil {
			p.update(func() {
				s.LastTerminationState = s.State
				s.State = waiting("CrashLoopBackOff", fmt.Sprintf("back-off %v restarting failed container=%s", pause, c.Name))
			})
		}
		select {
		case <-p.activeCtx.Done():
			return false
		case <-time.After(pause):
		}
		if err == nil {
			p.update(func() { s.RestartCount++ })
		}
	}
}

// runOnce runs a container once. It returns the exit code, or an error if the container could not run.
func (p *pod) runOnce(c *corev1.Container, s *corev1.ContainerStatus) (int32, error) {
	b, argv, err := p.processSpec(c)
	if err != nil {
		return 0, err
	}
	defer func() { _ = b.log.Close() }()
	process, err := p.r.sandbox.start(b, argv)
	if err != nil {
		return 0, fmt.Errorf("starting: %w", err)
	}
	began := metav1.Now()
	p.update(func() {
		p.running[c.Name] = process
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}
		s.ContainerID = "runner://" + b.layer
		s.Started = new(c.StartupProbe == nil)
		s.Ready = c.StartupProbe == nil && c.ReadinessProbe == nil
	})
	up, down := context.WithCancel(p.activeCtx)
	stopEnd := context.AfterFunc(p.activeCtx, func() { p.stopContainer(c, process) })
	stopKill := context.AfterFunc(p.killCtx, func() { _ = process.cmd.Process.Kill() })
	var probes sync.WaitGroup
	probes.Go(func() { p.runProbes(up, c, s, process) })
	<-process.done
	down()
	stopEnd()
	stopKill()
	probes.Wait()
	ended := terminated(process.err, began)
	ended.ContainerID = s.ContainerID
	ended.Message = p.message(c, ended.ExitCode)
	p.update(func() {
		delete(p.running, c.Name)
		s.State = corev1.ContainerState{Terminated: ended}
		s.Ready = false
		s.Started = new(false)
	})
	return ended.ExitCode, os.RemoveAll(filepath.Join(p.r.sandbox.files, b.layer))
}

// stopContainer runs the preStop hook and sends the stop signal.
func (p *pod) stopContainer(c *corev1.Container, process *process) {
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Exec != nil {
		out, err := p.r.sandbox.exec(p.killCtx, process, c.Lifecycle.PreStop.Exec.Command)
		if err != nil && p.killCtx.Err() == nil {
			p.r.t.Logf("the hook before the end of container %s of pod %s: %v%s", c.Name, p.object.Name, err, out)
		}
	}
	_ = process.cmd.Process.Signal(process.spec.image.stop)
}

// signal sends a signal to the first process of all containers.
func (p *pod) signal(signal unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, process := range p.running {
		_ = process.cmd.Process.Signal(signal)
	}
}

// process returns the running process of a container, or nil.
func (p *pod) process(container string) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running[container]
}

// message returns the termination message of a container.
func (p *pod) message(c *corev1.Container, code int32) string {
	const longest, longestLog = 4096, 2048
	text := tail(p.file("termination/"+c.Name), longest)
	if text == "" && code != 0 && c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		text = tail(p.file("logs/"+c.Name), longestLog)
	}
	return text
}

// logs returns the output of all containers.
func (p *pod) logs() string {
	const longest = 1 << 20
	var text strings.Builder
	for _, c := range allContainers(&p.object.Spec) {
		if log := tail(p.file("logs/"+c.Name), longest); log != "" {
			fmt.Fprintf(&text, "--- %s of %s\n%s", c.Name, p.object.Name, log)
		}
	}
	return text.String()
}

// tail returns the end of a file; "" if it does not exist.
func tail(file string, longest int) string {
	text, err := os.ReadFile(file) //nolint:gosec // one of ours
	if err != nil {
		return ""
	}
	return string(text[max(0, len(text)-longest):])
}

// update changes the status and writes it to the API server.
func (p *pod) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	summarize(&p.status, p.completed)
	patch, err := statusPatch(p.object.UID, &p.status)
	if err != nil {
		p.r.t.Errorf("writing a status: %v", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), apiTimeout)
	defer cancel()
	_, err = p.r.client.CoreV1().Pods(p.object.Namespace).
		Patch(ctx, p.object.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !isUIDMismatch(err) {
		p.r.t.Errorf("writing the status of pod %s: %v", p.object.Name, err)
	}
}

// isUIDMismatch reports whether the API server rejected a status because the pod was replaced by another one of its name.
func isUIDMismatch(err error) bool {
	var refused apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &refused) && slices.ContainsFunc(refused.Status().Details.Causes,
		func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}
