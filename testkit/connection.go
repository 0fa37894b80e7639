package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/rbac"
)

// existingVariable names the kubeconfig of a cluster to use instead of a control plane of the tests' own. It is not
// KUBECONFIG: a kubectl configuration alone must never direct tests at a cluster.
const existingVariable = "TESTKIT_KUBECONFIG"

var errPrivate = errors.New("it needs a control plane of its own, but " + existingVariable + " names a cluster")

// A connection is a control plane and the state that its clients share.
type connection struct {
	env      *Env
	existing bool // the cluster of TESTKIT_KUBECONFIG, without our garbage collector
	private  bool // used by one test only
	config   *rest.Config
	dir      string // of the control plane; empty for an existing cluster
	release  func()
	scheme   *runtime.Scheme
	http     *http.Client
	mapper   meta.RESTMapper
	client   client.WithWatch
	policy   *rbac.Policy // nil without Env.RBAC
	webhooks []*unstructured.Unstructured
	// clusterScoped is whether the histories of tests have cluster-scoped objects. Further watches take time, also of the
	// packages that do not need them.
	clusterScoped bool

	watch    sync.Once
	watching *history.Recorder
	watchErr error
}

// recorder follows all namespaces, and the cluster-scoped objects if the Env has such a kind, from its first call until the
// connection is released.
func (c *connection) recorder() (*history.Recorder, error) {
	c.watch.Do(func() {
		recorder, err := history.Acquire(context.Background(), c.config, c.scheme, c.clusterScoped)
		if err != nil {
			c.watchErr = err
			return
		}
		c.watching = recorder
		release := c.release
		c.release = func() {
			c.watching.Release()
			release()
		}
	})
	return c.watching, c.watchErr
}

func (e *Env) connect(ctx context.Context, private bool) (*connection, error) {
	c := &connection{env: e, private: private, existing: os.Getenv(existingVariable) != "", release: func() {}}
	var err error
	if c.scheme, err = e.scheme(); err != nil {
		return nil, err
	}
	if c.policy, err = e.policy(); err != nil {
		return nil, err
	}
	if c.webhooks, err = e.read(e.Webhooks); err != nil {
		return nil, err
	}
	objects, err := e.objects(c.scheme)
	if err != nil {
		return nil, err
	}
	c.clusterScoped = private || e.Private || slices.ContainsFunc(objects, definesClusterScoped)
	if c.existing {
		err = c.useExisting(ctx, objects)
	} else {
		err = c.acquire(ctx, objects)
	}
	if err == nil {
		err = c.makeClients()
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// definesClusterScoped reports whether an object is the CustomResourceDefinition of a cluster-scoped kind.
func definesClusterScoped(u *unstructured.Unstructured) bool {
	scope, _, err := unstructured.NestedString(u.Object, "spec", "scope")
	return err == nil && u.GetKind() == "CustomResourceDefinition" && scope == string(apiextensionsv1.ClusterScoped)
}

// acquire leases a control plane of the tests' own.
func (c *connection) acquire(ctx context.Context, objects []*unstructured.Unstructured) error {
	request, err := c.env.request(ctx)
	if err != nil {
		return err
	}
	request.Objects = objects
	request.Private = c.private
	request.UntilGoCommandEnds = true
	lease, err := environment.Acquire(ctx, request)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	c.config = lease.Config
	c.dir = lease.Dir
	c.release = func() {
		close(done)
		lease.Release()
	}
	go func() {
		select {
		case <-done:
		case <-lease.Done():
			fmt.Fprintf(os.Stderr, "testkit: the control plane is gone: %v\n", lease.Err())
		}
	}()
	return nil
}

// request finds the programs of the control plane, and describes it.
func (e *Env) request(ctx context.Context) (environment.Request, error) {
	r := environment.Request{Tier: cluster.API, Nodes: e.Nodes}
	switch {
	case e.Real != nil:
		r.Tier = cluster.Real
		r.Nodes = cmp.Or(e.Real.Count, defaultRealNodes)
		nodes, err := assets.FindNodes(ctx, assets.Options{Progress: assets.Print(os.Stderr)})
		if err != nil {
			return r, err
		}
		r.Real = environment.RealNodes{
			NodePrograms: nodes.Dir, NodeLease: e.Real.Lease, RestartBackoff: e.Real.RestartBackoff,
			Ingress: e.Real.Ingress, Metrics: e.Real.Metrics,
		}
		for _, dir := range e.Real.Images {
			absolute, err := filepath.Abs(dir) // the control plane runs in another folder
			if err != nil {
				return r, fmt.Errorf("finding Env.Real.Images: %w", err)
			}
			r.Real.Images = append(r.Real.Images, absolute)
		}
	case e.Workloads:
		r.Tier = cluster.Workloads
	}
	set, err := assets.Find(ctx, assets.Options{Programs: cluster.Programs(r.Tier), Progress: assets.Print(os.Stderr)})
	r.Binaries = set.Dir
	return r, err
}

// useExisting prepares an existing cluster. Installed objects are never removed from it.
func (c *connection) useExisting(ctx context.Context, objects []*unstructured.Unstructured) error {
	if c.private {
		return errPrivate
	}
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", os.Getenv(existingVariable)); err != nil {
		return fmt.Errorf("reading the kubeconfig in %s: %w", existingVariable, err)
	}
	c.config.QPS = -1
	if err := manifest.Install(ctx, c.config, objects); err != nil {
		return fmt.Errorf("preparing the cluster in %s: %w", existingVariable, err)
	}
	return nil
}

func (c *connection) makeClients() (err error) {
	if c.http, err = rest.HTTPClientFor(c.config); err != nil {
		return fmt.Errorf("making an HTTP client: %w", err)
	}
	if c.mapper, err = apiutil.NewDynamicRESTMapper(c.config, c.http); err != nil {
		return fmt.Errorf("making a REST mapper: %w", err)
	}
	c.client, err = c.newClient(c.config, c.http)
	return err
}

// clientFor returns a client with another configuration for the same API server.
func (c *connection) clientFor(cfg *rest.Config) (client.WithWatch, error) {
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making an HTTP client: %w", err)
	}
	return c.newClient(cfg, httpClient)
}

func (c *connection) newClient(cfg *rest.Config, httpClient *http.Client) (client.WithWatch, error) {
	made, err := client.NewWithWatch(cfg, client.Options{HTTPClient: httpClient, Scheme: c.scheme, Mapper: c.mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return made, nil
}
