// Package v0 runs a real OLM v0 beside a cluster with simulated nodes: its two programs are processes on this machine, and
// what its pods would do, to serve a catalog and to unpack bundles, is done here with what would be in their images.
package v0

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/operator-framework/api/crds"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/cache"
	"github.com/operator-framework/operator-registry/pkg/server"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// Namespace is that of OLM and of the catalogs.
const Namespace = "olm"

// Objects are what a cluster has to have before OLM runs: its definitions, and its namespace.
func Objects() []client.Object {
	return []client.Object{
		crds.CatalogSource(), crds.ClusterServiceVersion(), crds.InstallPlan(), crds.OLMConfig(), crds.Operator(),
		crds.OperatorCondition(), crds.OperatorGroup(), crds.Subscription(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}},
	}
}

// AddToScheme adds OLM's types.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(v1alpha1.AddToScheme(s), operatorsv1.AddToScheme(s)) //nolint:wrapcheck // each says what
}

// Options say what OLM finds.
type Options struct {
	// Programs is the folder of the module that names the programs.
	Programs string
	// Bundles finds what is in the images of bundles.
	Bundles olm.Bundles
	// Dir is an existing folder for the kubeconfig and the logs.
	Dir string
	// Patience is how long OLM tries to carry out a plan that it cannot carry out; 0 means a minute, as OLM has it.
	Patience time.Duration
	// Notice is told what takes time and what goes wrong, from any goroutine.
	Notice func(string)
}

// An OLM is a real OLM. Its methods may be called from several goroutines.
type OLM struct {
	*programs.Group
	network *network
}

// Build builds the programs, of what a module names, if they are not there, and returns their folder. notice is told
// before, because it takes minutes.
func Build(ctx context.Context, module string, notice func(string)) (string, error) {
	const manager = "github.com/operator-framework/operator-lifecycle-manager"
	return programs.Build(ctx, programs.Source{ //nolint:wrapcheck // says what it was doing
		Module: module,
		Packages: []string{
			manager + "/cmd/catalog", manager + "/cmd/olm", "github.com/operator-framework/operator-registry/cmd/opm",
		},
		Edits: []programs.Edit{{Package: manager + "/pkg/lib/server", File: "server.go", Old: `":8080"`, New: `"127.0.0.1:0"`}},
	}, notice)
}

// Start starts OLM, whose Objects are in the cluster. It builds the programs the first time.
func Start(ctx context.Context, cfg *rest.Config, o Options) (*OLM, error) {
	o.Patience = cmp.Or(o.Patience, time.Minute)
	bin, err := Build(ctx, o.Programs, o.Notice)
	if err != nil {
		return nil, err
	}
	l := &OLM{Group: programs.NewGroup(o.Dir)}
	if err := l.start(ctx, cfg, o, bin); err != nil {
		l.Stop()
		return nil, fmt.Errorf("starting OLM: %w", err)
	}
	return l, nil
}

func (l *OLM) start(ctx context.Context, cfg *rest.Config, o Options, bin string) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), AddToScheme(scheme)); err != nil {
		return err //nolint:wrapcheck // Start does
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return err //nolint:wrapcheck // Start does
	}
	// Copies of each version in each namespace would be most of what there is to do.
	lean := &operatorsv1.OLMConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"},
		Spec:       operatorsv1.OLMConfigSpec{Features: &operatorsv1.Features{DisableCopiedCSVs: new(true)}},
	}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, lean)); err != nil {
		return err //nolint:wrapcheck // Start does
	}
	if l.network, err = newNetwork(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	l.AtStop(l.network.close)
	simulated, err := kubelet.New(cfg)
	if err != nil {
		return err //nolint:wrapcheck // Start does
	}
	u := &unpacker{
		client: c, config: cfg, kubelet: simulated, bundles: o.Bundles, opm: filepath.Join(bin, "opm"), notice: o.Notice,
		seen: map[types.UID]bool{},
	}
	stop, err := u.start(ctx)
	if err != nil {
		return err
	}
	l.AtStop(stop)
	file, err := programs.Kubeconfig(o.Dir, cfg)
	if err != nil {
		return err //nolint:wrapcheck // Start does
	}
	env := []string{"KUBECONFIG=" + file, "GRPC_PROXY=" + l.network.proxy(), "NO_PROXY="}
	for name, args := range map[string][]string{
		"catalog": {"--namespace=" + Namespace, "--kubeconfig=" + file, "--install-plan-retry-timeout=" + o.Patience.String()},
		"olm":     nil,
	} {
		err := l.Launch(filepath.Join(bin, name), func() ([]string, error) { return args, nil }, env...)
		if err != nil {
			return err //nolint:wrapcheck // Start does
		}
	}
	return nil
}

// Lead makes a name in the cluster, as host:port, lead to an address on this machine.
func (l *OLM) Lead(name, address string) { l.network.lead(name, address) }

// Serve serves a catalog on the loopback interface, as opm in the pod of a catalog does, until it is stopped, which may be
// done more than once. Its files are in dir.
func Serve(ctx context.Context, catalog *declcfg.DeclarativeConfig, dir string) (address string, stop func(), err error) {
	files, kept := filepath.Join(dir, "configs"), filepath.Join(dir, "cache")
	for _, folder := range []string{files, kept} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return "", nil, fmt.Errorf("serving a catalog: %w", err)
		}
	}
	f, err := os.Create(filepath.Join(files, "catalog.json"))
	if err != nil {
		return "", nil, fmt.Errorf("serving a catalog: %w", err)
	}
	if err := errors.Join(declcfg.WriteJSON(*catalog, f), f.Close()); err != nil {
		return "", nil, fmt.Errorf("serving a catalog: %w", err)
	}
	store, err := cache.New(kept)
	if err != nil {
		return "", nil, fmt.Errorf("serving a catalog: %w", err)
	}
	if err := cache.LoadOrRebuild(ctx, store, os.DirFS(files)); err != nil {
		return "", nil, errors.Join(fmt.Errorf("serving a catalog: %w", err), store.Close())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("serving a catalog: %w", err), store.Close())
	}
	g := grpc.NewServer()
	api.RegisterRegistryServer(g, server.NewRegistryServer(store))
	go func() { _ = g.Serve(listener) }()
	return listener.Addr().String(), sync.OnceFunc(func() {
		g.Stop()
		_ = store.Close()
	}), nil
}
