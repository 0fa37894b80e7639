// Package kitadapter lets the explorer (package explore) run scenarios and operators that use testkit.K.
//
// The explorer knows neither package testkit nor package testing. This package opens the namespaces of its runs with
// testkit.New, and converts steps and operators.
package kitadapter

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// Open is a [space.Opener] for the control plane of testkit.Main or testkit.StartEnv.
func Open(s *space.Space, transport func(http.RoundTripper) http.RoundTripper) error {
	return open(&recordingTB{space: s}, s, transport)
}

// OpenClusterWide is Open for an operator whose ServiceAccount has the permissions of its ClusterRoleBindings in the whole
// cluster.
func OpenClusterWide(s *space.Space, transport func(http.RoundTripper) http.RoundTripper) error {
	return open(&clusterWideTB{&recordingTB{space: s}}, s, transport)
}

func open(tb testing.TB, s *space.Space, transport func(http.RoundTripper) http.RoundTripper) error {
	opened := isolate(func() {
		k := testkit.New(tb, testkit.WithClientTransport(transport))
		k.Timeout = s.Timeout
		s.Handle = k
		s.Namespace = k.Namespace
		s.Config = k.Config
		s.Client = k.Client
		if plane, err := k.PodFaults(); err == nil {
			s.Pods = plane
		}
	})
	if !opened {
		return space.ErrFailed
	}
	return nil
}

// Kit returns the test kit of a space that was opened by Open.
func Kit(s *space.Space) *testkit.K {
	k, _ := s.Handle.(*testkit.K)
	return k
}

// Action converts a function that fails a test. Nil stays nil.
func Action(f func(k *testkit.K)) func(s *space.Space) error {
	if f == nil {
		return nil
	}
	return func(s *space.Space) error {
		if !isolate(func() { f(Kit(s)) }) {
			return space.ErrFailed
		}
		return nil
	}
}

// Step returns a step of a scenario.
func Step(name string, do func(k *testkit.K)) explore.Step {
	return explore.Step{Name: name, Do: Action(do)}
}

// ServiceAccount returns the client configuration of a ServiceAccount in the namespace of s.
func ServiceAccount(s *space.Space, name string) (cfg *rest.Config, err error) {
	if !isolate(func() { cfg = Kit(s).ServiceAccount(name) }) {
		return nil, space.ErrFailed
	}
	return cfg, nil
}

// ForwardWebhooks makes the API server call the webhooks of the run at the program that serves them at a URL.
func ForwardWebhooks(s *space.Space, to *url.URL, transport http.RoundTripper) (stop func(), err error) {
	return Kit(s).ForwardWebhooks(to, transport)
}

// InProcess returns an operator that runs in a manager of this process. The function starts it with the given options
// besides its own.
func InProcess(start func(k *testkit.K, opts ...testkit.StartOption) explore.Process) explore.Subject {
	return inProcess(start)
}

type inProcess func(k *testkit.K, opts ...testkit.StartOption) explore.Process

// Start implements explore.Subject.
func (f inProcess) Start(s *space.Space, how explore.Start) (explore.Process, error) {
	k := Kit(s)
	opts := []testkit.StartOption{testkit.WithTransport(how.Transport)}
	if how.LeaderElection {
		opts = append(opts, testkit.WithManagerOptions(elect(k, how.Transport)))
	}
	var p explore.Process
	if !isolate(func() { p = f(k, opts...) }) {
		return nil, space.ErrFailed
	}
	return process{p}, nil
}

// process isolates the methods of a process, because they may fail the test.
type process struct{ explore.Process }

// Kill implements explore.Process.
func (p process) Kill() { isolate(p.Process.Kill) }

// Stop implements explore.Process.
func (p process) Stop() { isolate(p.Process.Stop) }

// Panics returns the panics of the operator.
func (p process) Panics() []string {
	if p, ok := p.Process.(interface{ Panics() []string }); ok {
		return p.Panics()
	}
	return nil
}

// IsIdleFor reports whether the operator is known to reconcile nothing for this time unless it receives an event.
func (p process) IsIdleFor(d time.Duration) bool {
	q, ok := p.Process.(interface{ IsIdleFor(d time.Duration) bool })
	return ok && q.IsIdleFor(d)
}

// IsReconciling reports whether the operator is known to be reconciling.
func (p process) IsReconciling() bool {
	q, ok := p.Process.(interface{ IsReconciling() bool })
	return ok && q.IsReconciling()
}

// elect returns a manager option for leader election with short periods. The Lease differs from the one that the operator's
// roles may name, so it is written with all permissions.
func elect(k *testkit.K, transport func(http.RoundTripper) http.RoundTripper) func(*manager.Options) {
	const lease, renew, retry = 2 * time.Second, 1500 * time.Millisecond, 200 * time.Millisecond
	return func(o *manager.Options) {
		o.LeaderElection = true
		o.LeaderElectionID = "testkit-chaos"
		o.LeaderElectionNamespace = k.Namespace
		o.LeaderElectionConfig = rest.CopyConfig(k.Config)
		o.LeaderElectionConfig.Wrap(transport)
		o.LeaseDuration = new(lease)
		o.RenewDeadline = new(renew)
		o.RetryPeriod = new(retry)
	}
}
