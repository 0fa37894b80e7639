// Command olm runs a real Operator Lifecycle Manager beside a cluster of testkit, whose nodes are simulated: what the
// manifests in olm/install name is there, so that somebody can install operators with them, word for word, on a machine
// without containers.
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

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/prepare"
	"github.com/homeostat-dev/homeostat/olm/internal/stage"
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	interrupted := ctx.Err() != nil // before stop, which ends it, too
	stop()
	if err != nil && !interrupted {
		fmt.Fprintln(os.Stderr, "olm:", err)
		os.Exit(1)
	}
}

// A lifecycle is an OLM of one of the versions.
type lifecycle interface {
	Failed() <-chan struct{}
	Err() error
	Stop()
}

// A session is one run of the command.
type session struct {
	root   string // of the repository
	dir    string // for what is written
	file   string // the kubeconfig
	config *rest.Config
	client client.Client
	out    io.Writer
}

// run returns when the context ends, with no error, and before that if OLM does not run.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("olm", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	newer, build := flags.Bool("v1", false, ""), flags.Bool("build", false, "")
	s := &session{out: out}
	flags.StringVar(&s.root, "root", ".", "")
	flags.StringVar(&s.file, "kubeconfig", os.Getenv(clientcmd.RecommendedConfigPathEnvVar), "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintln(out, usage)
		return nil
	case err != nil || flags.NArg() > 0:
		return errors.Join(err, errors.New(usage))
	case *build:
		return prepare.All(ctx, s.root, s.say) //nolint:wrapcheck // says what it was doing
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "olm-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	var failed error // of what runs
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
	s.advise(*newer)
	select {
	case <-ctx.Done():
		s.say("OLM has ended; what it installed stays in the cluster")
		return nil
	case <-s.gone(ctx):
	case <-l.Failed():
		if !s.refused(ctx) {
			failed = l.Err()
			return fmt.Errorf("%w; all that was said is in %s", failed, s.dir)
		}
	}
	return fmt.Errorf("the cluster at %s has ended, and OLM with it: %s", s.config.Host, remedy)
}

// path is that of something in the repository.
func (s *session) path(name string) string { return filepath.Join(s.root, filepath.FromSlash(name)) }

func (s *session) bundles() olm.Bundles { return olm.In(s.path("olm/released"), s.path("bundle")) }

func (s *session) say(line string) { _, _ = fmt.Fprintln(s.out, line) }

// render makes the catalog of each operator.
func (s *session) render(ctx context.Context) (map[string]*declcfg.DeclarativeConfig, error) {
	names, err := stage.Operators(s.path("olm/templates"))
	if err != nil {
		return nil, fmt.Errorf("%w: name the folder of the repository with -root", err)
	}
	catalogs := map[string]*declcfg.DeclarativeConfig{}
	for _, name := range names {
		if catalogs[name], err = olm.Render(ctx, s.path("olm/templates/"+name+".yaml"), s.bundles(), olm.Published); err != nil {
			return nil, err //nolint:wrapcheck // names the file
		}
	}
	return catalogs, nil
}

// startV0 starts OLM v0, and serves what the pod of the catalog would.
func (s *session) startV0(ctx context.Context, catalogs map[string]*declcfg.DeclarativeConfig) (lifecycle, error) {
	if err := s.install(ctx, v0.Objects()); err != nil {
		return nil, err
	}
	l, err := v0.Start(ctx, s.config, v0.Options{
		Programs: s.path("olm/programs"), Bundles: s.bundles(), Dir: s.dir, Notice: s.say,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // says what it was doing
	}
	all := &declcfg.DeclarativeConfig{}
	for _, catalog := range catalogs {
		all.Merge(catalog)
	}
	address, stop, err := v0.Serve(ctx, all, s.dir)
	if err != nil {
		l.Stop()
		return nil, err //nolint:wrapcheck // says what it was doing
	}
	l.AtStop(stop)
	l.Lead("homeostat.olm.svc:50051", address)
	return l, nil
}

// startV1 starts OLM v1, and pushes the images to its registry.
func (s *session) startV1(ctx context.Context, catalogs map[string]*declcfg.DeclarativeConfig) (lifecycle, error) {
	objects, err := v1.Objects(ctx, s.path("olm/programs/v1"))
	if err != nil {
		return nil, err //nolint:wrapcheck // says what it was doing
	}
	if err := s.install(ctx, objects); err != nil {
		return nil, err
	}
	l, err := v1.Start(ctx, s.config, v1.Options{Programs: s.path("olm/programs/v1"), Dir: s.dir, Notice: s.say})
	if err != nil {
		return nil, err //nolint:wrapcheck // says what it was doing
	}
	if _, err := l.Publish(ctx, catalogs, s.bundles(), "latest"); err != nil {
		l.Stop()
		return nil, err //nolint:wrapcheck // says what it was doing
	}
	return l, nil
}

// advise says what to do next.
func (s *session) advise(newer bool) {
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
