package program

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// restConfig returns the connection to the API server: of the given kubeconfig, else of the cluster that the program runs
// in, else of the user's default kubeconfig.
func (s *settings) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	inside := rest.ErrNotInCluster
	if s.kubeconfig == "" {
		var cfg *rest.Config
		if cfg, inside = rest.InClusterConfig(); inside == nil {
			return withoutRateLimit(cfg), nil
		}
	} else {
		rules.Precedence = filepath.SplitList(s.kubeconfig)
		if missing := firstMissing(rules.Precedence); missing != "" {
			return nil, &usageError{fmt.Errorf("%s does not exist: correct --kubeconfig or KUBECONFIG", missing)}
		}
	}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch files := strings.Join(rules.Precedence, " and "); {
	case err == nil:
		return withoutRateLimit(cfg), nil
	case !errors.Is(inside, rest.ErrNotInCluster):
		return nil, &usageError{fmt.Errorf(
			"no cluster to work on: %w: let the pod mount the token of its ServiceAccount, or set --kubeconfig", inside)}
	case !clientcmd.IsEmptyConfig(err):
		return nil, &usageError{fmt.Errorf("no cluster to work on: reading %s: %w (set --kubeconfig or KUBECONFIG)", files, err)}
	case s.kubeconfig == "":
		return nil, &usageError{fmt.Errorf(
			"no cluster to work on: the program does not run in one, and %s names none: set --kubeconfig or KUBECONFIG", files)}
	default:
		return nil, &usageError{fmt.Errorf("no cluster to work on: %s names none: correct --kubeconfig or KUBECONFIG", files)}
	}
}

func firstMissing(files []string) string {
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			return file
		}
	}
	return ""
}

// withoutRateLimit disables client-side rate limiting in favor of the API server's priority and fairness.
func withoutRateLimit(cfg *rest.Config) *rest.Config {
	cfg.QPS = -1
	return cfg
}
