package explore

import (
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
)

// InProcess is an operator that runs in a manager of this process. The function starts it, with the options that it is given
// beside its own.
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

// elect makes a manager one of several, with times as short as a test can bear. The Lease is not the one that the operator's
// roles may be about, so it is written with all rights.
func elect(k *testkit.K, transport func(http.RoundTripper) http.RoundTripper) func(*manager.Options) {
	const lease, renew, retry = 2 * time.Second, 1500 * time.Millisecond, 200 * time.Millisecond
	return func(o *manager.Options) {
		o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "testkit-chaos", k.Namespace
		o.LeaderElectionConfig = rest.CopyConfig(k.Config)
		o.LeaderElectionConfig.Wrap(transport)
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = new(lease), new(renew), new(retry)
	}
}
