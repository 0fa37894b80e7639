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

// The pauses between two attempts to run a container.
const firstPause, lastPause = 100 * time.Millisecond, 5 * time.Second

// apiTimeout bounds one request.
const apiTimeout = 10 * time.Second

// A pod is one that has a node.
type pod struct {
	r      *Runner
	object *corev1.Pod // as it was when it got its node
	number int

	// When life ends nothing is started any more, and when hard ends everything is killed.
	life, hard context.Context //nolint:containedctx // they are not those of a call.
	end, kill  context.CancelFunc
	done       chan struct{} // closed when it is gone

	network *os.File
	address string

	mu        sync.Mutex
	status    corev1.PodStatus
	completed bool // nothing will be started again
	running   map[string]*process
	runs      int
}

func newPod(r *Runner, object *corev1.Pod, number int) *pod {
	p := &pod{r: r, object: object, number: number, done: make(chan struct{}), running: map[string]*process{}}
	p.hard, p.kill = context.WithCancel(context.Background())
	p.life, p.end = context.WithCancel(p.hard)
	p.status = initialStatus(object)
	return p
}

// directory is where the pod's files are in the storage.
func (p *pod) directory() string { return fmt.Sprintf("pods/%d", p.number) }

// file is the name for this process of a file that belongs to the pod.
func (p *pod) file(name string) string { return filepath.Join(p.r.sandbox.files, p.directory(), name) }

// terminate ends the pod, within the time given at the latest. It does not wait, and may be called again.
func (p *pod) terminate(grace time.Duration) {
	p.end()
	if grace == 0 {
		p.kill()
		return
	}
	time.AfterFunc(grace, p.kill)
}

// live is the pod's life from its first container until it is deleted.
func (p *pod) live() {
	defer close(p.done)
	defer p.r.forget(p)
	if err := unsupported(&p.object.Spec); err != nil {
		p.r.t.Errorf("pod %s cannot be run here: %v", p.object.Name, err)
	} else if err := p.prepare(); err != nil {
		p.r.t.Errorf("preparing pod %s: %v", p.object.Name, err)
	} else {
		p.runAll()
		p.update(func() { p.completed = true })
	}
	<-p.life.Done()
	if p.network != nil {
		_ = p.network.Close()
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(p.object.UID))
	ctx, cancel := context.WithTimeout(context.Background(), apiTimeout)
	defer cancel()
	err := p.r.client.CoreV1().Pods(p.object.Namespace).Delete(ctx, p.object.Name, *options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !isOfAnother(err) {
		p.r.t.Errorf("removing pod %s: %v", p.object.Name, err)
	}
}

// prepare makes what all containers share.
func (p *pod) prepare() error {
	var err error
	if p.network, p.address, err = p.r.sandbox.newNetwork(p.number); err != nil {
		return err
	}
	if err := public(p.file("etc")); err != nil {
		return err
	}
	p.update(func() {
		p.status.PodIP, p.status.PodIPs = p.address, []corev1.PodIP{{IP: p.address}}
		p.status.HostIP, p.status.HostIPs = gateway, []corev1.HostIP{{IP: gateway}}
	})
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	return p.publish(p.r.hosts)
}

// publish replaces the pod's /etc/hosts at once.
func (p *pod) publish(hosts string) error {
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
	return replace(file, hosts+p.status.PodIP+" "+name+"\n")
}

// runAll runs the containers of initialization one after the other, and then the others at once, until none will run again.
func (p *pod) runAll() {
	spec := &p.object.Spec
	for i := range spec.InitContainers {
		if !p.keep(&spec.InitContainers[i], &p.status.InitContainerStatuses[i], true) {
			return
		}
	}
	var all sync.WaitGroup
	for i := range spec.Containers {
		all.Go(func() { p.keep(&spec.Containers[i], &p.status.ContainerStatuses[i], false) })
	}
	all.Wait()
}

// keep runs a container as often as the pod's policy says, and reports whether its last run was a success.
func (p *pod) keep(c *corev1.Container, s *corev1.ContainerStatus, initial bool) bool {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		code, err := p.run(c, s)
		if p.life.Err() != nil {
			return false
		}
		again := true
		switch policy := p.object.Spec.RestartPolicy; {
		case err != nil: // it has not run
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
		case <-p.life.Done():
			return false
		case <-time.After(pause):
		}
		if err == nil {
			p.update(func() { s.RestartCount++ })
		}
	}
}

// run runs a container once and returns its exit code, or why it could not be run.
func (p *pod) run(c *corev1.Container, s *corev1.ContainerStatus) (int32, error) {
	b, argv, err := p.box(c)
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
	up, down := context.WithCancel(p.life)
	stopEnd := context.AfterFunc(p.life, func() { p.halt(c, process) })
	stopKill := context.AfterFunc(p.hard, func() { _ = process.cmd.Process.Kill() })
	var probes sync.WaitGroup
	probes.Go(func() { p.probe(up, c, s, process) })
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
		s.State, s.Ready, s.Started = corev1.ContainerState{Terminated: ended}, false, new(false)
	})
	return ended.ExitCode, os.RemoveAll(filepath.Join(p.r.sandbox.files, b.layer))
}

// halt asks a container to end.
func (p *pod) halt(c *corev1.Container, process *process) {
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Exec != nil {
		if out, err := p.r.sandbox.exec(p.hard, process, c.Lifecycle.PreStop.Exec.Command); err != nil && p.hard.Err() == nil {
			p.r.t.Logf("the hook before the end of container %s of pod %s: %v%s", c.Name, p.object.Name, err, out)
		}
	}
	_ = process.cmd.Process.Signal(process.box.image.stop)
}

// signal sends a signal to the first process of all containers.
func (p *pod) signal(signal unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, process := range p.running {
		_ = process.cmd.Process.Signal(signal)
	}
}

// process returns that of a container, or nil.
func (p *pod) process(container string) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running[container]
}

// message is what a container has left, in its own words.
func (p *pod) message(c *corev1.Container, code int32) string {
	const longest, longestLog = 4096, 2048
	text := tail(p.file("termination/"+c.Name), longest)
	if text == "" && code != 0 && c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		text = tail(p.file("logs/"+c.Name), longestLog)
	}
	return text
}

// logs is what all containers have printed.
func (p *pod) logs() string {
	const longest = 1 << 20
	var text strings.Builder
	for _, c := range all(&p.object.Spec) {
		if log := tail(p.file("logs/"+c.Name), longest); log != "" {
			fmt.Fprintf(&text, "--- %s of %s\n%s", c.Name, p.object.Name, log)
		}
	}
	return text.String()
}

// tail reads the end of a file; a file that is not there is empty.
func tail(file string, longest int) string {
	text, err := os.ReadFile(file) //nolint:gosec // one of ours
	if err != nil {
		return ""
	}
	return string(text[max(0, len(text)-longest):])
}

// update changes the status and tells the API server.
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
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !isOfAnother(err) {
		p.r.t.Errorf("writing the status of pod %s: %v", p.object.Name, err)
	}
}

// isOfAnother reports whether the API server refused a status because there is another pod of that name by now.
func isOfAnother(err error) bool {
	var refused apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &refused) && slices.ContainsFunc(refused.Status().Details.Causes,
		func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}
