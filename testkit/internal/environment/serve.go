package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/gc"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/socketdir"
)

// firstLeaseTimeout is how long a new environment waits for whoever started it.
const firstLeaseTimeout = 10 * time.Second

// RunHelperProcess turns this process into an environment, and does not return, if that is what it was started for.
// Otherwise it does nothing. Call it before anything else.
func RunHelperProcess() {
	dir := os.Getenv(asked)
	if dir == "" {
		return
	}
	if err := serve(socketdir.At(dir)); err != nil {
		log.Fatalf("being an environment: %v", err) // to a file: see spawn
	}
	os.Exit(0)
}

// serve starts what the spec says, leases it to all who connect, and removes it when nobody needs it any more.
func serve(p socketdir.Dir) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s, err := newServer(p)
	if err != nil {
		return err
	}
	go s.accept()
	go s.run(ctx)
	for {
		select {
		case <-s.unused:
		case <-ctx.Done():
			s.fail(errors.New("the environment was told to stop"))
		case <-s.failed:
		}
		// Under the lock nobody starts another environment while this one is being removed.
		unlock, err := p.Lock(context.Background())
		if err != nil {
			return err
		}
		if s.close() {
			stop()
			<-s.started       // or it would go on to start processes, and to write down which
			return s.remove() // the lock goes with the process
		}
		unlock() // somebody was faster and has a lease
	}
}

func newServer(p socketdir.Dir) (*server, error) {
	data, err := os.ReadFile(p.File("spec.json"))
	if err != nil {
		return nil, fmt.Errorf("reading what to be: %w", err)
	}
	s := &server{
		place: p, unused: make(chan struct{}, 1), failed: make(chan struct{}), ready: make(chan struct{}),
		started: make(chan struct{}), closed: make(chan struct{}), objects: map[string]string{}, holders: map[process.ID]bool{},
	}
	s.news.changed = make(chan struct{})
	if err := json.Unmarshal(data, &s.spec); err != nil {
		return nil, fmt.Errorf("reading what to be: %w", err)
	}
	s.state.Data = s.spec.Data
	if s.state.Owner, err = process.Self(); err != nil {
		return nil, fmt.Errorf("identifying this process: %w", err)
	}
	if err := p.WriteState(s.state); err != nil {
		return nil, err
	}
	if s.listener, err = p.Listen(); err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	time.AfterFunc(firstLeaseTimeout, s.checkUnused)
	return s, nil
}

// run starts the control plane and keeps an eye on it.
func (s *server) run(ctx context.Context) {
	err := s.start(ctx)
	close(s.started)
	if err != nil {
		s.fail(err)
		return
	}
	close(s.ready)
	<-s.cluster.Failed()
	s.fail(s.cluster.Failure())
}

func (s *server) start(ctx context.Context) error {
	c, err := cluster.Start(ctx, cluster.Options{
		Tier: s.spec.Tier, Nodes: s.spec.Nodes, Binaries: s.spec.Binaries, Dir: s.spec.Data,
		Progress: func(format string, args ...any) { s.news.publish(fmt.Sprintf(format, args...)) },
		Started:  s.record,
	})
	if err != nil {
		return err //nolint:wrapcheck // says it all
	}
	s.cluster = c
	return s.equip(ctx, c)
}

// equip adds what makes a control plane usable.
func (s *server) equip(ctx context.Context, c *cluster.Cluster) error {
	if _, err := gc.Start(ctx, c.Config()); err != nil {
		return fmt.Errorf("starting the janitor: %w", err)
	}
	kubeconfig, err := cluster.Kubeconfig(c.Config())
	if err != nil {
		return err //nolint:wrapcheck // says it all
	}
	if err := os.WriteFile(filepath.Join(s.spec.Data, "kubeconfig"), kubeconfig, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

// record notes the identity of a component for whoever may have to end it.
func (s *server) record(c cluster.Component) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Children = append(s.state.Children, c.ID)
	if err := s.place.WriteState(s.state); err != nil {
		log.Print(err)
	}
}

// remove leaves nothing behind. The caller holds the lock.
func (s *server) remove() error {
	var errs []error
	if s.cluster != nil {
		errs = append(errs, s.cluster.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(s.spec.Data), s.place.Remove())...)
}
