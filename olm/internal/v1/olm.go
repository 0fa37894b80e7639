// Package v1 runs a real OLM v1 beside a cluster with simulated nodes. OLM's two programs are processes on this machine.
// They pull catalogs and bundles from a registry in this process, as they do in a cluster from a real registry.
package v1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/programs"
)

// Namespace is the namespace of OLM.
const Namespace = "olmv1-system"

// Module is the module that contains OLM.
const Module = "github.com/operator-framework/operator-controller"

// Objects returns the prerequisites of OLM in the cluster: its definitions, and its namespace. The folder contains the
// module that names the programs.
func Objects(ctx context.Context, programs string) ([]client.Object, error) {
	objects, err := Definitions(ctx, programs, Module, "config/base/*/crd/bases")
	if err != nil {
		return nil, err
	}
	return append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}), nil
}

// Definitions returns the definitions in some folders of OLM's module, at the version in the go.mod of a folder, from the
// cache of the go command.
func Definitions(ctx context.Context, dir, module, folders string) ([]client.Object, error) {
	cmd := exec.CommandContext(ctx, "go", "-C", dir, "mod", "download", "-json", module)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.Output()
	var downloaded struct {
		Dir   string `json:"dir"`
		Error string `json:"error"`
	}
	if err := errors.Join(err, json.Unmarshal(out, &downloaded)); err != nil {
		return nil, fmt.Errorf("downloading %s: %w %s", module, err, downloaded.Error)
	}
	files, err := filepath.Glob(filepath.Join(downloaded.Dir, folders, "*.yaml"))
	if kinds := 2; err != nil || len(files) != kinds {
		return nil, fmt.Errorf("%s has the definitions %v, %w", module, files, err)
	}
	var all []client.Object
	for _, file := range files {
		objects, err := fixture.Read(file)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			all = append(all, o)
		}
	}
	return all, nil
}

// Options configure OLM.
type Options struct {
	// Programs is the folder of the module that names the programs.
	Programs string
	// Dir is an existing folder for OLM's files. Its logs are kept, unpacked files are removed.
	Dir string
	// Notice is called before steps that take long.
	Notice func(string)
}

// An OLM is a running OLM with a registry. Its methods are safe for concurrent use.
type OLM struct {
	*programs.Group
	registry *images
}

// Build builds the programs that a module names, if they are not cached, and returns their folder. It calls notice first,
// because a build takes minutes.
func Build(ctx context.Context, module string, notice func(string)) (string, error) {
	return programs.Build(ctx, programs.Source{
		Module: module, Packages: []string{Module + "/cmd/catalogd", Module + "/cmd/operator-controller"},
		Edits: []programs.Edit{{
			Package: Module + "/cmd/catalogd", File: "main.go",
			Old: "		Port: cfg.webhookPort,\n", New: "		Host: \"127.0.0.1\", Port: cfg.webhookPort,\n",
		}},
	}, notice)
}

// Start starts OLM. Its Objects must be in the cluster. The first call builds the programs.
func Start(ctx context.Context, cfg *rest.Config, o Options) (*OLM, error) {
	bin, err := Build(ctx, o.Programs, o.Notice)
	if err != nil {
		return nil, err
	}
	l := &OLM{Group: programs.NewGroup(o.Dir)}
	if err := l.start(cfg, o.Dir, bin); err != nil {
		l.Stop()
		return nil, fmt.Errorf("starting OLM: %w", err)
	}
	return l, nil
}

func (l *OLM) start(cfg *rest.Config, dir, bin string) error {
	home := filepath.Join(dir, "home")
	l.AtStop(func() { _ = remove(home) })
	temp := filepath.Join(home, "tmp")
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return err
	}
	file, err := programs.Kubeconfig(dir, cfg)
	if err != nil {
		return err
	}
	l.registry = newImages()
	l.AtStop(l.registry.close)
	trusted, certificate, key, err := l.registry.trust(home)
	if err != nil {
		return err
	}
	env := []string{"KUBECONFIG=" + file, "HOME=" + home, "TMPDIR=" + temp}
	common := []string{"--health-probe-bind-address=0", "--pull-cas-dir=" + trusted, "--system-namespace=" + Namespace}
	err = l.Launch(filepath.Join(bin, "catalogd"), func() ([]string, error) {
		address, webhook, err := ports()
		// The webhook that labels catalogs is not installed here. The program listens for it nevertheless.
		return append([]string{
			"--catalogs-server-addr=" + address, "--external-address=" + address, "--webhook-server-port=" + webhook,
			"--tls-cert=" + certificate, "--tls-key=" + key, "--metrics-bind-address=0", "--cache-dir=" + home + "/catalogd",
		}, common...), err
	}, env...)
	if err != nil {
		return err
	}
	return l.Launch(filepath.Join(bin, "operator-controller"), func() ([]string, error) {
		return append([]string{"--catalogd-cas-dir=" + trusted, "--cache-path=" + home + "/operator-controller"}, common...), nil
	}, env...)
}

// ports returns an address, and the port of another one, that are unused on the loopback interface.
func ports() (address, port string, err error) {
	var listen net.ListenConfig
	first, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", fmt.Errorf("looking for a port: %w", err)
	}
	defer func() { _ = first.Close() }()
	second, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", fmt.Errorf("looking for a port: %w", err)
	}
	defer func() { _ = second.Close() }()
	_, port, err = net.SplitHostPort(second.Addr().String())
	return first.Addr().String(), port, err
}

// remove removes a folder, including read-only folders in it.
func remove(dir string) error {
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(file, 0o700)
		}
		return err
	})
	return errors.Join(err, os.RemoveAll(dir))
}
