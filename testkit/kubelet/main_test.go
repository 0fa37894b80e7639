package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// All tests of this package share one control plane.
var (
	simulator *kubelet.Kubelet
	client    kubernetes.Interface
	kwok      *process.Process
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run starts an API server and kwok only: no scheduler or controller takes part in these tests.
func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	set, err := assets.Find(ctx, assets.Options{
		Programs: []string{assets.Etcd, assets.APIServer, assets.Kwok},
		Progress: assets.Print(os.Stderr),
	})
	if err != nil {
		return 0, err
	}
	c, err := cluster.Start(ctx, cluster.Options{Binaries: set.Dir})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	kubeconfig, err := cluster.Kubeconfig(c.Config())
	if err != nil {
		return 0, err
	}
	file := filepath.Join(c.Dir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return 0, err
	}
	stages, err := kubelet.WriteStages(c.Dir())
	if err != nil {
		return 0, err
	}
	log := filepath.Join(c.Dir(), "kwok.log")
	cmd := exec.CommandContext(ctx, set.Path(assets.Kwok), kubelet.Args(file, stages)...)
	if kwok, err = process.Start(assets.Kwok, cmd, log); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, kwok.Kill()) }()
	if client, err = kubernetes.NewForConfig(c.Config()); err != nil {
		return 0, err
	}
	if simulator, err = kubelet.New(c.Config()); err != nil {
		return 0, err
	}
	return m.Run(), nil
}
