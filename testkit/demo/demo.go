// Package story tells what an operator does, as a story that people watch: acts that happen one after another on a
// cluster of its own, with the operator as a process that runs with the rights it ships.
//
// A line of a story says what was seen on the cluster, and the story ends with an error as soon as something else is
// seen than the operator promises. It is for the programs behind `make demo`. It is not for tests, which have package
// testkit and need no program; but one test should tell each story, so that it stays true.
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

// A Story is what happens to one operator.
type Demo struct {
	// Dir is the folder of the operator, from the root of the repository.
	Dir string
	// AddToScheme registers the Go types of the operator's kinds. Those of Kubernetes itself are always known.
	AddToScheme func(*runtime.Scheme) error
	// Steps returns what happens, in order. The first act that fails is the last.
	Steps func(*Env) []Step
}

// An Act is a part of a story.
type Step struct {
	// Title says in a sentence, without its full stop, what is done.
	Title string
	// Play does it, waits for what should come of it and says with Stage.Saw what did. An error says what did not.
	Play func(context.Context) error
}

// A Stage is where a story happens.
type Env struct {
	// Client reads and writes the API server directly, as a user who may do everything.
	Client client.WithWatch
	// Sandbox is the cluster with the operator.
	*sandbox.Sandbox

	out io.Writer
}

// Printf prints a line of the story.
func (s *Env) Printf(format string, args ...any) { fmt.Fprintf(s.out, "   "+format+"\n", args...) }

// Seconds is how a story writes how long something took, to the hundredth: for example "1.52 s" or "8 s".
func Seconds(d time.Duration) string {
	return fmt.Sprintf("%g s", d.Round(10*time.Millisecond).Seconds())
}

// Main tells the story on standard output and ends the program if it goes wrong, with exit code 1. It must be the first
// call in main. The flag -dir names another folder of the operator.
func Main(s Demo) {
	sandbox.RunHelperProcess()
	log.SetLogger(logr.Discard()) // else controller-runtime complains, after half a minute, that nobody wants its log
	dir := flag.String("dir", s.Dir, "folder of the operator")
	flag.Parse()
	s.Dir = *dir
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := Run(ctx, s, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// Run starts a cluster and the operator, tells the story and stops both, however the story ends. A program that calls
// it must have called sandbox.RunHelperProcess. Lines may be written from several goroutines.
func Run(ctx context.Context, s Demo, out io.Writer) (err error) {
	project, err := sandbox.Load(ctx, s.Dir)
	if err != nil {
		return err //nolint:wrapcheck // names the folder
	}
	set, err := assets.Find(ctx, assets.Options{
		Need: cluster.Programs(cluster.Workloads), Progress: assets.Print(os.Stderr),
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
	// An interrupted story still cleans up after itself.
	defer func() {
		if stopErr := box.Stop(context.WithoutCancel(ctx)); err == nil {
			err = stopErr
		}
	}()
	stage := &Env{Sandbox: box, out: out}
	if stage.Client, err = s.connect(box); err != nil {
		return err
	}
	return stage.play(ctx, s.Steps(stage))
}

func (s Demo) connect(box *sandbox.Sandbox) (client.WithWatch, error) {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, s.AddToScheme} {
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

func (s *Env) play(ctx context.Context, acts []Step) error {
	for i, act := range acts {
		fmt.Fprintf(s.out, "\n%d. %s.\n", i+1, act.Title)
		if err := act.Play(ctx); err != nil {
			return fmt.Errorf("act %d: %w", i+1, err)
		}
	}
	fmt.Fprintln(s.out, "\nThe end.")
	return nil
}

// patience is how long each wait may take. An operator that was killed is restarted after a pause, so it is not short.
const patience = time.Minute

// Await looks, every 50 ms for at most a minute, until what it sees is as it should be, and returns what it saw last. An
// error of look ends it.
func Await[V any](ctx context.Context, look func(context.Context) (seen V, good bool, err error)) (V, error) {
	deadline := time.After(patience)
	for {
		seen, good, err := look(ctx)
		if err != nil || good {
			return seen, err
		}
		select {
		case <-ctx.Done():
			return seen, ctx.Err() //nolint:wrapcheck // somebody ended the story
		case <-deadline:
			return seen, fmt.Errorf("not within %s; the last that was seen: %v", Seconds(patience), seen)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
