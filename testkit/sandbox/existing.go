package sandbox

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// versionTimeout bounds the version request to an existing cluster.
const versionTimeout = 10 * time.Second

// An ExistingCluster is a cluster that the sandbox did not start. Use [FindExisting] to make one.
type ExistingCluster struct {
	// Context is the cluster's name in the user's kubeconfig.
	Context string

	kubeconfig []byte // contains only that context
	config     *rest.Config
}

// FindExisting reads the context of that name from the files that kubectl reads: the files in KUBECONFIG or, if it is
// not set, ~/.kube/config. It sends no request to the cluster. An error is one sentence.
func FindExisting(name string) (*ExistingCluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.WarnIfAllMissing = false // reported as an error
	source := "KUBECONFIG=" + os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		source = clientcmd.RecommendedHomeFile
	}
	if !slices.ContainsFunc(rules.Precedence, exists) {
		return nil, fmt.Errorf("there is no kubeconfig, in which context %s could be: %s does not exist; "+
			"name a file that does in KUBECONFIG", name, source)
	}
	all, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", source, err)
	}
	if all.Contexts[name] == nil {
		there := "has none"
		if names := slices.Sorted(maps.Keys(all.Contexts)); len(names) > 0 {
			there = "has " + strings.Join(names, ", ")
		}
		return nil, fmt.Errorf("there is no context %s: %s %s", name, source, there)
	}
	all.CurrentContext = name
	return newExistingCluster(all)
}

// newExistingCluster uses the current context.
func newExistingCluster(all *api.Config) (*ExistingCluster, error) {
	e := &ExistingCluster{Context: all.CurrentContext}
	err := api.MinifyConfig(all)
	if err == nil {
		err = api.FlattenConfig(all) // the file will be written to another folder
	}
	if err == nil {
		e.kubeconfig, err = clientcmd.Write(*all)
	}
	if err == nil {
		e.config, err = clientcmd.RESTConfigFromKubeConfig(e.kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("reading context %s: %w", e.Context, err)
	}
	return e, nil
}

// join checks that the cluster responds, and writes a kubeconfig for it.
func (s *Sandbox) join(ctx context.Context, e *ExistingCluster) error {
	s.config = e.config
	asking := rest.CopyConfig(e.config)
	asking.Timeout = versionTimeout
	c, err := discovery.NewDiscoveryClientForConfig(asking)
	if err == nil {
		_, err = c.ServerVersionWithContext(ctx)
	}
	if err != nil {
		return fmt.Errorf("the cluster of context %s does not answer: %w", e.Context, err)
	}
	if err := os.WriteFile(s.existingKubeconfig(), e.kubeconfig, 0o600); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	s.report("using the cluster of context %s at %s", e.Context, s.config.Host)
	return nil
}

func (s *Sandbox) existingKubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }
