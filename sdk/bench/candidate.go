package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/homeostat-dev/homeostat/sdk/bench/work"
)

// candidate is a program that is measured.
type candidate struct {
	name       string
	pkg        string // path below the benchmark's package
	args       []string
	singlePass bool // it processes each object once
}

// candidates returns all candidates, in the order of the report.
func candidates() []candidate {
	return []candidate{
		{name: "floor", pkg: "floor", singlePass: true},
		{name: "apply-floor", pkg: "floor", args: []string{"--apply"}, singlePass: true},
		{name: "kubebuilder", pkg: "kubebuilder"},
		{name: "sdk", pkg: "homeostat"},
		{name: "sdk-python", pkg: "python"},
	}
}

func rank(name string) int {
	return slices.IndexFunc(candidates(), func(c candidate) bool { return c.name == name })
}

const module = "github.com/homeostat-dev/homeostat/sdk/bench"

// build compiles the candidates' programs into a folder.
func build(ctx context.Context, dir string, which []candidate) error {
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, c := range which {
		if pkg := module + "/" + c.pkg; !slices.Contains(args, pkg) {
			args = append(args, pkg)
		}
	}
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the packages are named above
	cmd.Stdout = os.Stderr
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compiling the contenders: %w", err)
	}
	return nil
}

// process is a running candidate.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // result of Wait; valid after ended is closed
	log   string
}

// start runs a candidate. Its output goes to the log.
func (c candidate) start(dir, kubeconfig, log, profile string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // the folder is ours
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", c.name, err)
	}
	defer func() { _ = out.Close() }()                        // the process has a descriptor of its own
	cmd := exec.Command(filepath.Join(dir, c.pkg), c.args...) //nolint:gosec // the program comes from build
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, work.ProfileVariable+"="+profile)
	cmd.Stdout = out
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{}), log: log}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// check returns an error with the end of the log if the process has ended.
func (p *process) check() error {
	select {
	case <-p.ended:
		return fmt.Errorf("the contender ended (%w):\n%s", cause(p.err), tail(p.log))
	default:
		return nil
	}
}

func cause(err error) error {
	if err == nil {
		return errors.New("without an error")
	}
	return err
}

func tail(file string) string {
	const bytes = 2000
	raw, err := os.ReadFile(file) //nolint:gosec // the folder is ours
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-bytes):])
}

// stop terminates the process, and kills it after a timeout.
func (p *process) stop() {
	const timeout = 10 * time.Second
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-p.ended:
	case <-time.After(timeout):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// usage is the resource usage of a process and its descendants so far. Descendants that have ended are not in it.
type usage struct {
	cpu float64 // seconds
	rss float64 // bytes, current value
}

func usageOf(pid int) (usage, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return usage{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	stat, err := p.Stat()
	if err != nil {
		return usage{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	u := usage{cpu: stat.CPUTime(), rss: float64(stat.ResidentMemory())}
	all, err := procfs.AllProcs()
	if err != nil {
		return u, fmt.Errorf("looking for the children of process %d: %w", pid, err)
	}
	for _, other := range all {
		if stat, err := other.Stat(); err != nil || stat.PPID != pid { // it may have ended
			continue
		}
		if child, err := usageOf(other.PID); err == nil {
			u.cpu += child.cpu
			u.rss += child.rss
		}
	}
	return u, nil
}

// waitIdle waits until a process has used less than 2 % of a CPU in three consecutive windows of half a second.
func (p *process) waitIdle(ctx context.Context) error {
	const window, idleShare, consecutive = 500 * time.Millisecond, 0.02, 3
	before, err := usageOf(p.cmd.Process.Pid)
	for idle := 0; idle < consecutive; {
		if err != nil {
			return err
		}
		select {
		case <-time.After(window):
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to have nothing to do: %w", p.cmd.Path, ctx.Err())
		}
		var now usage
		now, err = usageOf(p.cmd.Process.Pid)
		idle++
		if now.cpu-before.cpu > idleShare*window.Seconds() {
			idle = 0
		}
		before = now
	}
	return nil
}
