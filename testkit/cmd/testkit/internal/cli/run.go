package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/socketdir"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// runForeground runs the sandbox in this process until ctx ends, another command stops it, or it fails.
func (c *command) runForeground(ctx context.Context, p socketdir.Dir, unlock func(), o upOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k, err := control(p, cancel)
	unlock()
	if err != nil {
		return err
	}
	return errors.Join(c.runSandbox(ctx, k, newView(c.out), o), k.close())
}

// runBackground does the same in a process that was started in the background. Its parent holds the lock.
func (c *command) runBackground(ctx context.Context, p socketdir.Dir, o upOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k, err := control(p, cancel)
	if err != nil {
		return err
	}
	o.background = true // there is no user at a terminal: samples that do not become ready are a failure
	err = c.runSandbox(ctx, k, newView(c.out), o)
	if err != nil {
		k.change(func(s *status) { s.Failure = err.Error() })
	}
	if err != nil && k.lateFailure() == "" {
		select {
		case <-ctx.Done():
		case <-time.After(failureLinger):
		}
	}
	return errors.Join(err, k.close())
}

// runSandbox runs a sandbox from start to end.
func (c *command) runSandbox(ctx context.Context, k *controller, v view, o upOptions) error {
	report := func(line string) {
		k.change(func(s *status) { s.Lines = append(s.Lines, line) })
		v.report(line)
	}
	k.change(func(s *status) {
		s.Dirs = o.dirs
		s.Context = o.context()
		s.WithoutOperators = o.bare
		s.Real = o.real
	})
	set, nodes, err := c.upAssets(ctx, o)
	if err != nil {
		return err
	}
	var realNodes *sandbox.RealNodes
	if o.real {
		realNodes = &sandbox.RealNodes{Programs: nodes, Images: o.images, Ingress: true, Metrics: true}
	}
	box, err := sandbox.Start(ctx, sandbox.Options{
		Projects: o.projects, Nodes: o.nodes, Assets: set, Existing: o.existing, WithoutOperators: o.bare, Dir: k.state.Data,
		Real: realNodes, Report: report, Started: k.started,
	})
	if err != nil {
		if ctx.Err() == nil {
			return err
		}
		report("interrupted; nothing is left running")
		return nil
	}
	k.change(func(s *status) {
		s.Kubeconfig = box.Kubeconfig()
		s.Programs = set.Dir
		s.Ingress = box.Ingress()
	})
	k.mu.Lock()
	k.takeSnapshot = func() snapshot { return takeSnapshot(ctx, box) }
	k.mu.Unlock()
	err = c.applyAndWatch(ctx, box, k, v, report, o)
	if ctx.Err() != nil {
		err = nil // this is the normal end
	}
	v.end()
	report("stopping")
	if stopErr := box.Stop(context.WithoutCancel(ctx)); stopErr != nil {
		return errors.Join(err, stopErr)
	}
	if o.existing != nil {
		report(leftBehind(o.context(), o.dirs))
	} else {
		report("everything is stopped and gone")
	}
	return err
}

// applyAndWatch applies the samples and shows their state.
func (c *command) applyAndWatch(
	ctx context.Context, box *sandbox.Sandbox, k *controller, v view, report func(string), o upOptions,
) error {
	if err := box.ApplySamples(ctx); err != nil {
		return err
	}
	var changes <-chan struct{} // never ready in the background
	if !o.background {
		var err error
		if changes, err = box.Changes(ctx); err != nil {
			return err
		}
	}
	ready := make(chan error, 1)
	go func() {
		timeout := readyTimeout
		if o.real {
			timeout = realReadyTimeout
		}
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ready <- box.WaitReady(limited)
	}()
	ticker := time.NewTicker(redrawInterval)
	defer ticker.Stop()
	for {
		if !o.background { // there is no terminal, and reading the objects would delay the start
			v.show(takeSnapshot(ctx, box))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-box.Done():
			return box.Err()
		case err := <-ready:
			switch {
			case err == nil:
				k.change(func(s *status) {
					s.Ready = true
					s.SampleCommands = box.SampleCommands(ctx)
				})
				v.keep(readyText(k.current(), "Ctrl-C here"))
			case o.background:
				return withLogs(withPods(ctx, err, box), box)
			default:
				report(withPods(ctx, err, box).Error())
			}
		case <-changes:
			<-time.After(redrawDelay)
		case <-ticker.C:
		}
	}
}

// withPods adds the pods on real nodes that are not ready.
func withPods(ctx context.Context, err error, box *sandbox.Sandbox) error {
	if pods := box.UnreadyPods(ctx); pods != "" {
		return fmt.Errorf("%w\n%s", err, pods)
	}
	return err
}

// withLogs adds the operators' logs.
func withLogs(err error, box *sandbox.Sandbox) error {
	for _, op := range box.Operators() {
		err = fmt.Errorf("%w\nthe end of the log of operator %s:\n%s", err, op.Name, op.LogTail())
	}
	return err
}

// leftBehind describes the objects that remain in an existing cluster, and how to remove them. The operators have to be
// running for that, because of finalizers.
func leftBehind(context string, dirs []string) string {
	remove := "kubectl delete -k DIR/config/samples and then -k DIR/config/default for each DIR of " + strings.Join(dirs, ", ")
	if startedByMake() {
		remove = "make undeploy-all OPERATOR=NAME for each NAME of " + names(dirs)
	}
	return fmt.Sprintf("stopped; what was installed stays in the cluster of context %s: to remove it, start the same again "+
		"and, while it runs, type with its KUBECONFIG %s", context, remove)
}
