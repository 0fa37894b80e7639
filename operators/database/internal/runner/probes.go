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
	// haste is how much more often containers are probed than they ask for, and how much sooner.
	haste = 10
	// shortestPeriod spares the machine.
	shortestPeriod = 200 * time.Millisecond
)

// probe asks a container how it is, until ctx ends.
func (p *pod) probe(ctx context.Context, c *corev1.Container, s *corev1.ContainerStatus, process *process) {
	ask := func(probe *corev1.Probe) error { return p.ask(ctx, probe, process) }
	if c.StartupProbe != nil {
		if err := follow(ctx, c.StartupProbe, ask, func(error) bool { return false }); err != nil {
			p.restart(ctx, c, process, err)
			return
		}
		p.update(func() { s.Started, s.Ready = new(true), c.ReadinessProbe == nil })
	}
	var both sync.WaitGroup
	if c.LivenessProbe != nil {
		both.Go(func() {
			err := follow(ctx, c.LivenessProbe, ask, func(err error) bool { return err == nil })
			p.restart(ctx, c, process, err)
		})
	}
	if c.ReadinessProbe != nil {
		both.Go(func() {
			ready := false
			_ = follow(ctx, c.ReadinessProbe, ask, func(err error) bool {
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

// restart ends a container that does not answer, unless ctx has ended.
func (p *pod) restart(ctx context.Context, c *corev1.Container, process *process, why error) {
	if ctx.Err() != nil {
		return
	}
	p.r.t.Logf("container %s of pod %s is ended, because it does not answer: %v", c.Name, p.object.Name, why)
	timer := time.AfterFunc(time.Duration(*p.object.Spec.TerminationGracePeriodSeconds)*time.Second, func() {
		_ = process.cmd.Process.Kill()
	})
	defer timer.Stop()
	p.halt(c, process)
	<-process.done
}

// follow asks again and again, and tells each answer that has come often enough in a row, until told says to stop or ctx
// ends. It returns the last answer that it told: nil, or what is wrong.
func follow(ctx context.Context, probe *corev1.Probe, ask func(*corev1.Probe) error, told func(error) (goOn bool)) error {
	period := max(time.Duration(probe.PeriodSeconds)*time.Second/haste, shortestPeriod)
	wait := time.Duration(probe.InitialDelaySeconds) * time.Second / haste
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

// ask asks once.
func (p *pod) ask(ctx context.Context, probe *corev1.Probe, process *process) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(probe.TimeoutSeconds)*time.Second)
	defer cancel()
	out, err := p.r.sandbox.exec(ctx, process, probe.Exec.Command)
	if err != nil {
		return fmt.Errorf("%w%s", err, out)
	}
	return nil
}
