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
	"github.com/homeostat-dev/homeostat/testkit/internal/aggregate"
	"github.com/homeostat-dev/homeostat/testkit/internal/gc"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/socketdir"
)

// firstLeaseTimeout bounds the wait of a new environment for its first client.
const firstLeaseTimeout = 10 * time.Second

// RunHelperProcess runs the server process of an environment, if this process was started for that, and does not
// return. Otherwise it does nothing. Call it first.
func RunHelperProcess() {
	dir := os.Getenv(serverVariable)
	if dir == "" {
		return
	}
	if err := serve(socketdir.At(dir)); err != nil {
		log.Fatalf("being an environment: %v", err) // to a file: see spawn
	}
	os.Exit(0)
}

// serve starts the control plane of the spec, leases it to all clients, and removes it when the last lease has ended.
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
		// The lock keeps other processes from starting an environment during the removal.
		unlock, err := p.Lock(context.Background())
		if err != nil {
			return err
		}
		if s.close() {
			stop()
			<-s.started       // otherwise it would still start and record processes
			return s.remove() // the process releases the lock when it ends
		}
		unlock() // a client was faster and has a lease
	}
}

func newServer(p socketdir.Dir) (*server, error) {
	data, err := os.ReadFile(p.File("spec.json"))
	if err != nil {
		return nil, fmt.Errorf("reading what to be: %w", err)
	}
	s := &server{
		dir: p, unused: make(chan struct{}, 1), failed: make(chan struct{}), ready: make(chan struct{}),
		started: make(chan struct{}), closed: make(chan struct{}), objects: map[string]string{}, holders: map[process.ID]bool{},
	}
	s.progress.changed = make(chan struct{})
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
		return nil, err
	}
	time.AfterFunc(firstLeaseTimeout, s.checkUnused)
	return s, nil
}

// run starts the control plane and waits for its failure.
func (s *server) run(ctx context.Context) {
	err := s.start(ctx)
	close(s.started)
	if err != nil {
		s.fail(err)
		return
	}
	close(s.ready)
	<-s.cluster.Done()
	s.fail(s.cluster.Err())
}

func (s *server) start(ctx context.Context) error {
	c, err := cluster.Start(ctx, cluster.Options{
		Tier: s.spec.Tier, Nodes: s.spec.Nodes, Binaries: s.spec.Binaries, Dir: s.spec.Data,
		Progress:     func(format string, args ...any) { s.progress.publish(fmt.Sprintf(format, args...)) },
		Started:      s.record,
		NodePrograms: s.spec.Real.NodePrograms, Images: s.spec.Real.Images, NodeLease: s.spec.Real.NodeLease,
		RestartBackoff: s.spec.Real.RestartBackoff, Ingress: s.spec.Real.Ingress, Metrics: s.spec.Real.Metrics,
	})
	if err != nil {
		return err
	}
	s.cluster = c
	return s.startServices(ctx, c)
}

// startServices starts what replaces controllers of Kubernetes, and writes the kubeconfig.
func (s *server) startServices(ctx context.Context, c *cluster.Cluster) error {
	if _, err := gc.Start(ctx, c.Config()); err != nil {
		return fmt.Errorf("starting the janitor: %w", err)
	}
	if s.spec.Tier == cluster.API {
		if err := aggregate.Start(ctx, c.Config()); err != nil {
			return fmt.Errorf("aggregating ClusterRoles: %w", err)
		}
	}
	kubeconfig, err := cluster.Kubeconfig(c.Config())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.spec.Data, "kubeconfig"), kubeconfig, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

// record stores the identity of a component, for the cleanup after a crash.
func (s *server) record(c cluster.Component) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Children = append(s.state.Children, c.ID)
	if err := s.dir.WriteState(s.state); err != nil {
		log.Print(err)
	}
}

// remove stops the control plane and removes all files. The caller holds the lock.
func (s *server) remove() error {
	var errs []error
	if s.cluster != nil {
		errs = append(errs, s.cluster.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(s.spec.Data), s.dir.Remove())...)
}
