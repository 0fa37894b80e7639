// Command olm runs a real Operator Lifecycle Manager beside a cluster of testkit, which has simulated nodes. It provides
// everything that the manifests in olm/install refer to, so that operators can be installed with the unchanged manifests on
// a machine without containers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/build"
	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/olm/internal/v1"
)

const usage = `usage: olm [-v1] [-build] [-root FOLDER] [-kubeconfig FILE]
It runs OLM v0, or v1, beside the cluster that make up BARE=1 runs, until it is interrupted.
  -v1          OLM v1
  -build       builds the programs of both versions, and the operators, if they are not there, and ends
  -root        the folder of the repository; "." if it is not given
  -kubeconfig  says which cluster; KUBECONFIG does if it is not given`

func main() {
	log.SetLogger(logr.Discard()) // otherwise controller-runtime warns after half a minute that no logger is set
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	interrupted := ctx.Err() != nil // read before stop, which cancels it as well
	stop()
	if err != nil && !interrupted {
		fmt.Fprintln(os.Stderr, "olm:", err)
		os.Exit(1)
	}
}

// A lifecycle is OLM in one of its versions.
type lifecycle interface {
	Done() <-chan struct{}
	Err() error
	Stop()
}

// A session is one execution of the command.
type session struct {
	root   string // of the repository
	dir    string // for logs and other output
	file   string // the kubeconfig
	config *rest.Config
	client client.Client
	out    io.Writer
}

// run returns nil when the context ends. It returns an error earlier if OLM does not run.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("olm", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	newer, buildOnly := flags.Bool("v1", false, ""), flags.Bool("build", false, "")
	s := &session{out: out}
	flags.StringVar(&s.root, "root", ".", "")
	flags.StringVar(&s.file, "kubeconfig", os.Getenv(clientcmd.RecommendedConfigPathEnvVar), "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintln(out, usage)
		return nil
	case err != nil || flags.NArg() > 0:
		return errors.Join(err, errors.New(usage))
	case *buildOnly:
		return build.All(ctx, s.root, s.notify)
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "olm-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	var failed error // the error of OLM or of the cluster
	defer func() {
		if failed == nil {
			err = errors.Join(err, os.RemoveAll(s.dir))
		}
	}()
	catalogs, err := s.render(ctx)
	if err != nil {
		return err
	}
	start := s.startV0
	if *newer {
		start = s.startV1
	}
	l, err := start(ctx, catalogs)
	if err != nil {
		return err
	}
	defer l.Stop()
	s.printNextSteps(*newer)
	select {
	case <-ctx.Done():
		s.notify("OLM has ended; what it installed stays in the cluster")
		return nil
	case <-s.clusterDone(ctx):
	case <-l.Done():
		if !s.connectionRefused(ctx) {
			failed = l.Err()
			return fmt.Errorf("%w; all that was said is in %s", failed, s.dir)
		}
	}
	return fmt.Errorf("the cluster at %s has ended, and OLM with it: %s", s.config.Host, clusterHint)
}

// path returns the path of a file of the repository.
func (s *session) path(name string) string { return filepath.Join(s.root, filepath.FromSlash(name)) }

func (s *session) bundles() olm.Bundles {
	return olm.BundlesIn(s.path("olm/released"), s.path("bundle"))
}

func (s *session) notify(line string) { _, _ = fmt.Fprintln(s.out, line) }

// render renders the catalog of each operator.
func (s *session) render(ctx context.Context) (map[string]*declcfg.DeclarativeConfig, error) {
	names, err := fixture.Operators(s.path("olm/templates"))
	if err != nil {
		return nil, fmt.Errorf("%w: name the folder of the repository with -root", err)
	}
	catalogs := map[string]*declcfg.DeclarativeConfig{}
	for _, name := range names {
		if catalogs[name], err = olm.Render(ctx, s.path("olm/templates/"+name+".yaml"), s.bundles(), olm.Published); err != nil {
			return nil, err
		}
	}
	return catalogs, nil
}

// startV0 starts OLM v0, and serves the catalog in place of the catalog's pod.
func (s *session) startV0(ctx context.Context, catalogs map[string]*declcfg.DeclarativeConfig) (lifecycle, error) {
	if err := fixture.Install(ctx, s.client, v0.Objects()); err != nil {
		return nil, err
	}
	l, err := v0.Start(ctx, s.config, v0.Options{
		Programs: s.path("olm/programs"), Bundles: s.bundles(), Dir: s.dir, Notice: s.notify,
	})
	if err != nil {
		return nil, err
	}
	all := &declcfg.DeclarativeConfig{}
	for _, catalog := range catalogs {
		all.Merge(catalog)
	}
	address, stop, err := v0.Serve(ctx, all, s.dir)
	if err != nil {
		l.Stop()
		return nil, err
	}
	l.AtStop(stop)
	l.Route("homeostat.olm.svc:50051", address)
	return l, nil
}

// startV1 starts OLM v1, and pushes the images to its registry.
func (s *session) startV1(ctx context.Context, catalogs map[string]*declcfg.DeclarativeConfig) (lifecycle, error) {
	objects, err := v1.Objects(ctx, s.path("olm/programs/v1"))
	if err != nil {
		return nil, err
	}
	if err := fixture.Install(ctx, s.client, objects); err != nil {
		return nil, err
	}
	l, err := v1.Start(ctx, s.config, v1.Options{Programs: s.path("olm/programs/v1"), Dir: s.dir, Notice: s.notify})
	if err != nil {
		return nil, err
	}
	if _, err := l.Publish(ctx, catalogs, s.bundles(), "latest"); err != nil {
		l.Stop()
		return nil, err
	}
	return l, nil
}

// printNextSteps prints the next commands for the user.
func (s *session) printNextSteps(newer bool) {
	version, look := "v0", "clusterserviceversions --all-namespaces"
	if newer {
		version, look = "v1", "clusterextensions"
	}
	_, _ = fmt.Fprintf(s.out, `OLM %[1]s runs beside the cluster at %[2]s until Ctrl-C; its logs are in %[3]s
In another terminal, for example:

  export KUBECONFIG=%[4]s
  kubectl apply -f olm/install/%[1]s/catalog.yaml
  kubectl apply -f olm/install/%[1]s/database.yaml
  kubectl get %[5]s

`, version, s.config.Host, s.dir, s.file, look)
}
