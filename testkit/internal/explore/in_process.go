package explore

import (
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
)

// InProcess returns an operator that runs in a manager of this process. The function starts it with the given options
// besides its own.
func InProcess(start func(k *testkit.K, opts ...testkit.StartOption) Process) Subject {
	return inProcess(start)
}

type inProcess func(k *testkit.K, opts ...testkit.StartOption) Process

// Start implements Subject.
func (s inProcess) Start(k *testkit.K, how Start) (Process, error) {
	opts := []testkit.StartOption{testkit.WithTransport(how.Transport)}
	if how.Elect {
		opts = append(opts, testkit.WithManagerOptions(elect(k, how.Transport)))
	}
	return s(k, opts...), nil
}

// elect returns a manager option for leader election with short periods. The Lease differs from the one that the
// operator's roles may name, so it is written with all permissions.
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
