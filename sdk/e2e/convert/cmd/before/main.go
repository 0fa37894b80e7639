// Command before runs the operator of package before. Steps 1 to 3 set up another reconciler.
package main

import (
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/api"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/before"
)

const monitoring = "monitoring"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run() error {
	metrics := flag.String("metrics-bind-address", ":8080", "where metrics are served")
	probes := flag.String("health-probe-bind-address", ":8081", "where probes are answered")
	elect := flag.Bool("leader-elect", false, "whether only one of several replicas is active")
	options := zap.Options{}
	options.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&options)))

	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(api.AddToScheme(scheme))
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: *metrics},
		HealthProbeBindAddress: *probes,
		LeaderElection:         *elect,
		LeaderElectionID:       "webapp.convert.homeostat.dev",
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{monitoring: {}}},
		}},
	})
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	r := &before.Reconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme(), Monitoring: monitoring}
	if err := r.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("creating the controller: %w", err)
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return fmt.Errorf("adding the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
