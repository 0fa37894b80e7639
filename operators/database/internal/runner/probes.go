//go:build linux

package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// probeSpeedup divides the periods and delays of probes.
	probeSpeedup = 10
	// shortestPeriod limits the load on the machine.
	shortestPeriod = 200 * time.Millisecond
)

// runProbes runs the probes of a container until ctx ends.
func (p *pod) runProbes(ctx context.Context, c *corev1.Container, s *corev1.ContainerStatus, process *process) {
	ask := func(probe *corev1.Probe) error { return p.probeOnce(ctx, probe, process) }
	if c.StartupProbe != nil {
		if err := runProbe(ctx, c.StartupProbe, ask, func(error) bool { return false }); err != nil {
			p.restartContainer(ctx, c, process, err)
			return
		}
		p.update(func() {
			s.Started = new(true)
			s.Ready = c.ReadinessProbe == nil
		})
	}
	var both sync.WaitGroup
	if c.LivenessProbe != nil {
		both.Go(func() {
			err := runProbe(ctx, c.LivenessProbe, ask, func(err error) bool { return err == nil })
			p.restartContainer(ctx, c, process, err)
		})
	}
	if c.ReadinessProbe != nil {
		both.Go(func() {
			ready := false
			_ = runProbe(ctx, c.ReadinessProbe, ask, func(err error) bool {
				if is := err == nil; is != ready && ctx.Err() == nil {
					ready = is
					p.update(func() { s.Ready = is })
				}
				return true
			})
		})
	}
	both.Wait()
}

// restartContainer stops a container after a failed liveness or startup probe, unless ctx has ended.
func (p *pod) restartContainer(ctx context.Context, c *corev1.Container, process *process, why error) {
	if ctx.Err() != nil {
		return
	}
	p.r.t.Logf("container %s of pod %s is ended, because it does not answer: %v", c.Name, p.object.Name, why)
	timer := time.AfterFunc(time.Duration(*p.object.Spec.TerminationGracePeriodSeconds)*time.Second, func() {
		_ = process.cmd.Process.Kill()
	})
	defer timer.Stop()
	p.stopContainer(c, process)
	<-process.done
}

// runProbe probes periodically. It passes each result that reached its threshold to told, until told returns false or ctx
// ends. It returns the last such result: nil, or the failure.
func runProbe(ctx context.Context, probe *corev1.Probe, ask func(*corev1.Probe) error, told func(error) (goOn bool)) error {
	period := max(time.Duration(probe.PeriodSeconds)*time.Second/probeSpeedup, shortestPeriod)
	wait := time.Duration(probe.InitialDelaySeconds) * time.Second / probeSpeedup
	well, row := false, int32(0)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = period
		err := ask(probe)
		if well != (err == nil) {
			well, row = err == nil, 0
		}
		row++
		if enough := (well && row >= probe.SuccessThreshold) || (!well && row >= probe.FailureThreshold); enough && !told(err) {
			return err
		}
	}
}

// probeOnce runs a probe once.
func (p *pod) probeOnce(ctx context.Context, probe *corev1.Probe, process *process) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(probe.TimeoutSeconds)*time.Second)
	defer cancel()
	out, err := p.r.sandbox.exec(ctx, process, probe.Exec.Command)
	if err != nil {
		return fmt.Errorf("%w%s", err, out)
	}
	return nil
}
