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

// contender is a program that is measured.
type contender struct {
	name string
	pkg  string // below that of the benchmark
	args []string
	once bool // it looks at each object once, and never again
}

// contenders returns all, in the order in which they are reported.
func contenders() []contender {
	return []contender{
		{name: "floor", pkg: "floor", once: true},
		{name: "apply-floor", pkg: "floor", args: []string{"--apply"}, once: true},
		{name: "kubebuilder", pkg: "kubebuilder"},
		{name: "sdk", pkg: "homeostat"},
	}
}

func rank(name string) int {
	return slices.IndexFunc(contenders(), func(c contender) bool { return c.name == name })
}

const module = "github.com/homeostat-dev/homeostat/sdk/bench"

// build compiles the contenders' programs into a folder.
func build(ctx context.Context, dir string, which []contender) error {
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, c := range which {
		if pkg := module + "/" + c.pkg; !slices.Contains(args, pkg) {
			args = append(args, pkg)
		}
	}
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the packages are named above
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compiling the contenders: %w", err)
	}
	return nil
}

// process is a contender that runs.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // once it has ended
	log   string
}

// start runs a contender. What it says goes to the log.
func (c contender) start(dir, kubeconfig, log, profile string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // in a folder of ours
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", c.name, err)
	}
	defer func() { _ = out.Close() }()                        // the process has its own
	cmd := exec.Command(filepath.Join(dir, c.pkg), c.args...) //nolint:gosec // build has made it
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, work.ProfileVariable+"="+profile)
	cmd.Stdout, cmd.Stderr = out, out
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

// check returns an error if the process has ended, with what it said last.
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
	raw, err := os.ReadFile(file) //nolint:gosec // in a folder of ours
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-bytes):])
}

// stop asks the process to end, and ends it if it does not.
func (p *process) stop() {
	const patience = 10 * time.Second
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // who has ended needs no signal
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// usage is what a process has used so far.
type usage struct {
	cpu float64 // seconds
	rss float64 // bytes, at the moment
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
	return usage{cpu: stat.CPUTime(), rss: float64(stat.ResidentMemory())}, nil
}

// settle waits until a process has next to nothing to do.
func (p *process) settle(ctx context.Context) error {
	const window, little, inARow = 500 * time.Millisecond, 0.02, 3
	before, err := usageOf(p.cmd.Process.Pid)
	for calm := 0; calm < inARow; {
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
		calm++
		if now.cpu-before.cpu > little*window.Seconds() {
			calm = 0
		}
		before = now
	}
	return nil
}
