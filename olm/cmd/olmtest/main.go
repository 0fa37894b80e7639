// Command olmtest tests the catalog of one operator with a real Operator Lifecycle Manager v0, on a cluster of its own with
// simulated nodes. It installs the operator with the manifest of the project, upgrades it from a former version if there is
// one, creates the samples, and removes everything. The program of the operator runs as a process of this machine, built
// from the project, with the arguments and permissions from OLM.
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
	"slices"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/homeostat-dev/homeostat/bundle"
	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

const usage = `usage: olmtest -name NAME -catalog FOLDER -released FOLDER -current FOLDER [-programs FOLDER] PROJECT
where -catalog has NAME/catalog.yaml and -current the bundle NAME, as make catalog writes them, -released the bundles of
former versions, and -programs the go.mod of OLM (default: programs). PROJECT is the folder of the operator, with
       olm/install/v0.yaml  a CatalogSource, a Namespace, an OperatorGroup and a Subscription
       config/samples       objects that become ready
       olm/refused          objects that its webhooks refuse, if it has any`

// options are the arguments.
type options struct {
	name, catalog, released, current, programs, project string
}

func main() {
	sandbox.RunHelperProcess()
	log.SetLogger(logr.Discard()) // otherwise controller-runtime warns after half a minute that no logger is set
	_ = os.Unsetenv("GOWORK")     // it is off for this command; the operator is built in the workspace of its folder
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "olmtest:", err)
		os.Exit(1)
	}
}

// run prints the results to out, and the progress to messages.
func run(ctx context.Context, args []string, out, messages io.Writer) error {
	var o options
	flags := flag.NewFlagSet("olmtest", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.name, "name", "", "")
	flags.StringVar(&o.catalog, "catalog", "", "")
	flags.StringVar(&o.released, "released", "", "")
	flags.StringVar(&o.current, "current", "", "")
	flags.StringVar(&o.programs, "programs", "programs", "")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(out, usage)
		return nil
	}
	if err != nil || o.name == "" || o.catalog == "" || o.released == "" || o.current == "" || flags.NArg() != 1 {
		return errors.Join(err, errors.New(usage))
	}
	o.project = flags.Arg(0)
	s, err := newSession(ctx, o)
	if err != nil {
		return err
	}
	s.notify = func(line string) { _, _ = fmt.Fprintln(messages, line) }
	s.print = func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	if err = s.start(ctx); err == nil {
		err = s.test(ctx)
	}
	failed := err != nil && ctx.Err() == nil && s.dir != ""
	if failed {
		s.printLogs()
		err = fmt.Errorf("%w; the logs of OLM are in %s", err, s.dir)
	}
	return errors.Join(err, s.stop(ctx, failed))
}

// newSession reads what the project has.
func newSession(ctx context.Context, o options) (*session, error) {
	s := &session{options: o}
	var err error
	if s.project, err = sandbox.Load(ctx, o.project); err != nil {
		return nil, err
	}
	if s.manifest, err = fixture.Read(filepath.Join(o.project, "olm", "install", "v0.yaml")); err != nil {
		return nil, err
	}
	if s.source = find(s.manifest, "CatalogSource"); s.source == nil || find(s.manifest, "Subscription") == nil {
		return nil, errors.New("olm/install/v0.yaml has no CatalogSource, or no Subscription")
	}
	if s.catalog, err = declcfg.LoadFile(os.DirFS(filepath.Join(o.catalog, o.name)), "catalog.yaml"); err != nil {
		return nil, fmt.Errorf("reading the catalog, which make catalog writes: %w", err)
	}
	if s.version, err = bundle.Version(filepath.Join(o.current, o.name)); err != nil {
		return nil, err
	}
	if !slices.Contains(olm.Versions(s.catalog), s.version) {
		return nil, fmt.Errorf("the catalog does not have the bundle of version %s: add it to olm/%s.yaml", s.version, o.name)
	}
	files, err := filepath.Glob(filepath.Join(o.project, "olm", "refused", "*.yaml"))
	for _, file := range files {
		objects, readErr := fixture.Read(file)
		s.refused = append(s.refused, objects...)
		err = errors.Join(err, readErr)
	}
	return s, err
}

// start builds all programs, so that nothing that must become ready within a timeout waits for a compiler, and starts the
// cluster and OLM.
func (s *session) start(ctx context.Context) error {
	set, err := assets.Find(ctx, assets.Options{
		Programs: cluster.Programs(cluster.Workloads), Progress: assets.Print(os.Stderr),
	})
	if err != nil {
		return err
	}
	if _, err := v0.Build(ctx, s.programs, s.notify); err != nil {
		return err
	}
	s.notify("building operator " + s.project.Name)
	if _, err := s.project.Build(ctx); err != nil {
		return err
	}
	s.sandbox, err = sandbox.Start(ctx, sandbox.Options{
		Projects: []*sandbox.Project{s.project}, Assets: set, WithoutOperators: true, Report: s.notify,
	})
	if err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	if err := fixture.Install(ctx, s.client, v0.Objects()); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "olm-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	s.olm, err = v0.Start(ctx, s.sandbox.Config(), v0.Options{
		Programs: s.programs, Bundles: olm.BundlesIn(s.released, s.current), Dir: s.dir, Notice: s.notify,
	})
	return err
}

// stop ends everything. Only on request it keeps the logs of OLM.
func (s *session) stop(ctx context.Context, keepLogs bool) error {
	if s.unserve != nil {
		s.unserve()
	}
	if s.olm != nil {
		s.olm.Stop()
	}
	var err error
	if !keepLogs {
		err = os.RemoveAll(s.dir)
	}
	if s.sandbox != nil {
		err = errors.Join(err, s.sandbox.Stop(context.WithoutCancel(ctx)))
	}
	return err
}

// find returns the first object of a kind, or nil.
func find(objects []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	for _, o := range objects {
		if o.GetKind() == kind {
			return o
		}
	}
	return nil
}
