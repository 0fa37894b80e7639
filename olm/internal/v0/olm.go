// Package v0 runs a real OLM v0 beside a cluster with simulated nodes. OLM's two programs are processes on this machine. The
// package does the work of its pods, serving a catalog and unpacking bundles, with the content of their images.
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

// Namespace is the namespace of OLM and of the catalogs.
const Namespace = "olm"

// Objects returns the prerequisites of OLM in the cluster: its definitions, and its namespace.
func Objects() []client.Object {
	return []client.Object{
		crds.CatalogSource(), crds.ClusterServiceVersion(), crds.InstallPlan(), crds.OLMConfig(), crds.Operator(),
		crds.OperatorCondition(), crds.OperatorGroup(), crds.Subscription(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}},
	}
}

// AddToScheme adds OLM's types.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(v1alpha1.AddToScheme(s), operatorsv1.AddToScheme(s))
}

// Options configure OLM.
type Options struct {
	// Programs is the folder of the module that names the programs.
	Programs string
	// Bundles returns the content of bundle images.
	Bundles olm.Bundles
	// Dir is an existing folder for the kubeconfig and the logs.
	Dir string
	// PlanTimeout is the time for which OLM retries a failing plan. The default, 0, means a minute, as in OLM.
	PlanTimeout time.Duration
	// Notice is called, from any goroutine, before steps that take long and with errors.
	Notice func(string)
}

// An OLM is a running OLM. Its methods are safe for concurrent use.
type OLM struct {
	*programs.Group
	network *network
}

// Build builds the programs that a module names, if they are not cached, and returns their folder. It calls notice first,
// because a build takes minutes.
func Build(ctx context.Context, module string, notice func(string)) (string, error) {
	const manager = "github.com/operator-framework/operator-lifecycle-manager"
	return programs.Build(ctx, programs.Source{
		Module: module,
		Packages: []string{
			manager + "/cmd/catalog", manager + "/cmd/olm", manager + "/cmd/copy-content", manager + "/util/cpb",
			"github.com/operator-framework/operator-registry/cmd/opm", "github.com/grpc-ecosystem/grpc-health-probe",
		},
		Edits: []programs.Edit{{Package: manager + "/pkg/lib/server", File: "server.go", Old: `":8080"`, New: `"127.0.0.1:0"`}},
	}, notice)
}

// Start starts OLM. Its Objects must be in the cluster. The first call builds the programs.
func Start(ctx context.Context, cfg *rest.Config, o Options) (*OLM, error) {
	o.PlanTimeout = cmp.Or(o.PlanTimeout, time.Minute)
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
		return err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	// Copies of each version in each namespace would cause most of the load.
	lean := &operatorsv1.OLMConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"},
		Spec:       operatorsv1.OLMConfigSpec{Features: &operatorsv1.Features{DisableCopiedCSVs: new(true)}},
	}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, lean)); err != nil {
		return err
	}
	if l.network, err = newNetwork(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	l.AtStop(l.network.close)
	simulated, err := kubelet.New(cfg)
	if err != nil {
		return err
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
		return err
	}
	env := []string{"KUBECONFIG=" + file, "GRPC_PROXY=" + l.network.proxy(), "NO_PROXY="}
	for name, args := range map[string][]string{
		"catalog": {"--namespace=" + Namespace, "--kubeconfig=" + file, "--install-plan-retry-timeout=" + o.PlanTimeout.String()},
		"olm":     nil,
	} {
		err := l.Launch(filepath.Join(bin, name), func() ([]string, error) { return args, nil }, env...)
		if err != nil {
			return err
		}
	}
	return nil
}

// Route connects a name in the cluster, as host:port, to an address on this machine.
func (l *OLM) Route(name, address string) { l.network.route(name, address) }

// Serve serves a catalog on the loopback interface, as opm does in the pod of a catalog. Its files are in dir. stop is
// idempotent.
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
