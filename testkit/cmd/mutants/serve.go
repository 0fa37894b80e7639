package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

// serveOperator runs an operator until ctx is done, as a program with the kubeconfig in KUBECONFIG. It watches the
// namespace in NAMESPACE, or all if the variable is empty or the operator is one of all namespaces.
func serveOperator(ctx context.Context, name string) error {
	all := append(mutants.All(), mutants.CorrectTwins()...)
	i := slices.IndexFunc(all, func(m mutants.Mutant) bool { return m.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no operator %q: without -serve, the names are printed", name)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, mutants.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		return fmt.Errorf("registering Go types: %w", err)
	}
	ctrl.SetLogger(klog.NewKlogr())
	options := manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	}
	if namespace := os.Getenv("NAMESPACE"); namespace != "" && !all[i].ClusterWide {
		options.Cache.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	mgr, err := manager.New(cfg, options)
	if err != nil {
		return fmt.Errorf("making a manager: %w", err)
	}
	if err := all[i].Setup(mgr); err != nil {
		return fmt.Errorf("setting up its controllers: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}
