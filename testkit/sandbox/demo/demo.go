// Package demo runs a scripted scenario with an operator, for people to watch: steps on a cluster of its own, with the
// operator as a process that has the permissions it ships.
//
// Each printed line reports observed state. The demo ends with an error as soon as the state differs from the
// operator's contract. It is for the programs behind `make demo`. Tests use package testkit and need no program; but
// one test should run each demo, so that it stays correct.
package demo

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// A Demo is a scenario with one operator.
type Demo struct {
	// Dir is the folder of the operator, relative to the root of the repository.
	Dir string
	// AddToScheme registers the Go types of the operator's kinds. The built-in types are always registered.
	AddToScheme func(*runtime.Scheme) error
	// Steps returns the steps, in order. The first step that fails is the last.
	Steps func(*Env) []Step
}

// A Step is one part of a demo.
type Step struct {
	// Title describes the action in a sentence without a full stop.
	Title string
	// Play runs the action, waits for its effect and reports it with Env.Printf. It returns an error if the effect
	// differs.
	Play func(context.Context) error
}

// An Env is the environment of a demo.
type Env struct {
	// Client reads and writes the API server directly, as cluster administrator.
	Client client.WithWatch
	// Sandbox is the cluster with the operator.
	*sandbox.Sandbox

	out io.Writer
}

// Printf prints a line of the demo.
func (e *Env) Printf(format string, args ...any) { fmt.Fprintf(e.out, "   "+format+"\n", args...) }

// Seconds formats a duration in seconds, to the hundredth: for example "1.52 s" or "8 s".
func Seconds(d time.Duration) string {
	const hundredth = time.Second / 100
	return fmt.Sprintf("%g s", float64(d.Round(hundredth)/hundredth)/float64(time.Second/hundredth))
}

// Main runs the demo on standard output and exits with code 1 if it fails. It must be the first call in main. The flag
// -dir names another folder of the operator.
func Main(d Demo) {
	sandbox.RunHelperProcess()
	log.SetLogger(logr.Discard()) // otherwise controller-runtime warns after half a minute that no logger is set
	dir := flag.String("dir", d.Dir, "folder of the operator")
	flag.Parse()
	d.Dir = *dir
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := Run(ctx, d, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// Run starts a cluster and the operator, runs the demo and stops both in any case. A program that calls it must have
// called sandbox.RunHelperProcess. Lines may be written from several goroutines.
func Run(ctx context.Context, d Demo, out io.Writer) (err error) {
	project, err := sandbox.Load(ctx, d.Dir)
	if err != nil {
		return err
	}
	set, err := assets.Find(ctx, assets.Options{
		Programs: cluster.Programs(cluster.Workloads), Progress: assets.Print(os.Stderr),
	})
	if err != nil {
		return fmt.Errorf("finding a control plane: %w", err)
	}
	box, err := sandbox.Start(ctx, sandbox.Options{
		Projects: []*sandbox.Project{project}, Assets: set,
		Report: func(line string) { fmt.Fprintln(out, "  ", line) },
	})
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	// An interrupted demo still cleans up.
	defer func() {
		if stopErr := box.Stop(context.WithoutCancel(ctx)); err == nil {
			err = stopErr
		}
	}()
	env := &Env{Sandbox: box, out: out}
	if env.Client, err = d.connect(box); err != nil {
		return err
	}
	return env.play(ctx, d.Steps(env))
}

func (d Demo) connect(box *sandbox.Sandbox) (client.WithWatch, error) {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, d.AddToScheme} {
		if err := add(types); err != nil {
			return nil, fmt.Errorf("registering types: %w", err)
		}
	}
	c, err := client.NewWithWatch(box.Config(), client.Options{Scheme: types})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return c, nil
}

func (e *Env) play(ctx context.Context, steps []Step) error {
	for i, step := range steps {
		fmt.Fprintf(e.out, "\n%d. %s.\n", i+1, step.Title)
		if err := step.Play(ctx); err != nil {
			return fmt.Errorf("act %d: %w", i+1, err)
		}
	}
	fmt.Fprintln(e.out, "\nThe end.")
	return nil
}

// timeout bounds each wait. A killed operator is restarted after a pause, so the timeout is not short.
const timeout = time.Minute

// Await calls poll every 50 ms, for at most a minute, until it returns done, and returns the last value. An error of
// poll ends the wait.
func Await[V any](ctx context.Context, poll func(context.Context) (value V, done bool, err error)) (V, error) {
	deadline := time.After(timeout)
	for {
		value, done, err := poll(ctx)
		if err != nil || done {
			return value, err
		}
		select {
		case <-ctx.Done():
			return value, ctx.Err()
		case <-deadline:
			return value, fmt.Errorf("not within %s; the last that was seen: %v", Seconds(timeout), value)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
