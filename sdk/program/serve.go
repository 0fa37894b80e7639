package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/internal/setup"
)

// namespaceFile holds the namespace of a pod. It is the default namespace of the Lease.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// serve runs the operators until the context ends.
func (s *settings) serve(ctx context.Context, cfg *rest.Config, operators []Runnable, logger logr.Logger) error {
	if _, err := os.Stat(namespaceFile); err != nil && s.leaderElect && s.leaderNamespace == "" {
		return &usageError{errors.New("--leader-elect: the program does not run in a cluster, whose namespace it would take: " +
			"set --leader-election-namespace to that of the Lease (see --help)")}
	}
	mgr, err := s.newManager(cfg)
	if err != nil {
		return err
	}
	withFlags := func(o *setup.Options) { o.Flags = s.flags }
	names := make([]string, len(operators))
	for i, op := range operators {
		names[i], _ = op.Describe()
		if err := op.SetupWithManager(mgr, sdk.InNamespaces(s.namespaces...), sdk.Workers(s.workers), withFlags); err != nil {
			if _, ok := errors.AsType[*setup.FlagError](err); ok {
				return &usageError{fmt.Errorf("%w (see --help)", err)}
			}
			return err
		}
	}
	logger.Info("Operator starting", "operators", names, "version", version(debug.ReadBuildInfo()), "server", cfg.Host,
		"namespaces", s.namespaces, "memoryLimit", limitMemory(machine(), os.LookupEnv))
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	logger.Info("Operator stopped")
	return nil
}

func (s *settings) newManager(cfg *rest.Config) (manager.Manager, error) {
	metrics := metricsserver.Options{BindAddress: s.metricsAddress, SecureServing: s.metricsSecure}
	if s.metricsSecure {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	mgr, err := manager.New(cfg, manager.Options{
		Metrics:                       metrics,
		HealthProbeBindAddress:        s.probeAddress,
		LeaderElection:                s.leaderElect,
		LeaderElectionID:              s.name + ".homeostat.dev",
		LeaderElectionNamespace:       s.leaderNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &s.shutdownTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing to run: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	return mgr, nil
}
