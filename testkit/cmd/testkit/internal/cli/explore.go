package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/runname"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// exitBroken means that an exploration failed for a reason that is neither the operator's fault nor a mistake in the
// command line. Exit code 1 is for findings.
const exitBroken = 3

// perProcessor is the number of parallel runs of a program for each processor. They wait more than they compute.
const perProcessor = 2

// programQuietPeriod is the time in which a program reacts to a change. Interpreters are slow.
const programQuietPeriod = 300 * time.Millisecond

// explore runs a program repeatedly with faults.
func (c *command) explore(args []string) error {
	o, err := c.exploreOptions(args)
	if err != nil {
		return err
	}
	in, err := readInput(o)
	if err != nil {
		return &usageError{fmt.Errorf("explore: %w", err)}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	interrupted := make(chan syscall.Signal, 1)
	go func() {
		if s, ok := <-signals; ok {
			// The second Ctrl-C ends the program at once, together with its child processes. A signal within the same second
			// is not a second one: timeout(1) signals the process and then its group.
			time.AfterFunc(time.Second, func() { signal.Stop(signals) })
			c.say("testkit: stopping")
			interrupted <- s.(syscall.Signal) //nolint:forcetypeassert // no other type is registered
			cancel()
		}
	}()
	defer close(signals)
	defer signal.Stop(signals)
	err = c.exploreInput(ctx, o, in)
	select {
	case s := <-interrupted:
		return exitError(exitSignal + int(s))
	default:
	}
	var exit exitError
	var wrong *usageError
	if err == nil || errors.As(err, &exit) || errors.As(err, &wrong) {
		return err
	}
	c.say("testkit: explore: %v", err)
	return exitError(exitBroken)
}

// input is the content of the files.
type input struct {
	crds     []*unstructured.Unstructured
	policy   *policy        // nil if the operator has all permissions
	former   *report.Report // nil without --continue
	scenario *scenario.Scenario
	webhooks []*unstructured.Unstructured // configurations
}

func readInput(o exploreOptions) (in input, err error) {
	for _, path := range o.crds {
		crds, err := scenario.ReadCRDs(path)
		if err != nil {
			return in, firstOf(err)
		}
		in.crds = append(in.crds, crds...)
	}
	if in.scenario, err = scenario.Read(o.scenario, in.crds...); err != nil {
		return in, firstOf(err)
	}
	for _, name := range runname.Mentioned(strings.Join(o.command, " ")) {
		if !slices.Contains(in.scenario.Namespaces, name) {
			return in, fmt.Errorf("{namespace:%s}: the scenario has no such namespace: write namespaces: [%[1]s] into %s, "+
				"or correct the argument", name, o.scenario)
		}
	}
	in.crds = append(in.crds, in.scenario.CRDs...)
	if len(o.rbac) > 0 {
		if in.policy, err = readPolicy(o.rbac, o.account); err != nil {
			return in, err
		}
	}
	if in.webhooks, err = readWebhooks(o.webhooks); err != nil {
		return in, err
	}
	if o.former != "" {
		in.former, err = readFormer(o.former)
	}
	return in, err
}

// firstOf returns the first of several mistakes, so that the user corrects one at a time.
func firstOf(err error) error {
	if mistake, ok := errors.AsType[*scenario.Error](err); ok {
		return mistake
	}
	return err
}

// exploration is the state of a running exploration.
type exploration struct {
	*command

	options exploreOptions
	input   input
	config  *rest.Config // with all permissions
	admin   kube.Client
	creator creator
	folder  string
	bar     *progress
}

// exploreInput starts a control plane and explores.
func (c *command) exploreInput(ctx context.Context, o exploreOptions, in input) (err error) {
	e := &exploration{command: c, options: o, input: in, bar: newProgress(c.err)}
	if e.creator, err = newCreator(); err != nil {
		return err
	}
	env := testkit.Env{Workloads: o.workloads}
	for _, crd := range in.crds {
		env.Objects = append(env.Objects, crd)
	}
	files := fstest.MapFS{}
	env.FS = files
	if in.policy != nil {
		files[policyFile] = in.policy.file
		env.RBAC = policyFile
	}
	if len(in.webhooks) > 0 {
		if files[webhooksFile], err = encode(in.webhooks); err != nil {
			return err
		}
		env.Webhooks = webhooksFile
	}
	release, folder, err := c.holdControlPlane(ctx, o, in)
	if err != nil {
		return err
	}
	e.folder = folder
	closeEnv := testkit.StartEnv(env)
	defer func() {
		closeEnv()
		err = errors.Join(err, release())
	}()
	if e.config, err = testkit.Config(ctx); err != nil {
		return err
	}
	return e.run(ctx)
}

// holdControlPlane keeps the control plane running until release, which returns when it has stopped. It also returns a
// folder that is removed together with the control plane.
func (c *command) holdControlPlane(
	ctx context.Context, o exploreOptions, in input,
) (release func() error, folder string, err error) {
	if os.Getenv(existingCluster) != "" {
		folder, err = os.MkdirTemp("", "testkit-explore-*")
		return func() error { return os.RemoveAll(folder) }, folder, err
	}
	tier := cluster.API
	if o.workloads {
		tier = cluster.Workloads
	}
	set, err := assets.Find(ctx, assets.Options{Programs: cluster.Programs(tier), Progress: assets.Print(c.err)})
	if err != nil {
		return nil, "", err
	}
	lease, err := environment.Acquire(ctx, environment.Request{
		Tier: tier, Binaries: set.Dir, Objects: in.crds, Progress: func(line string) { c.say("testkit: %s", line) },
	})
	if err != nil {
		return nil, "", err
	}
	release = func() error {
		_ = os.RemoveAll(folder) // or it is removed with the control plane
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		if err := lease.ReleaseAndWait(limited); err != nil {
			return err
		}
		// Our own other lease may have been released so late that it looked like a foreign one.
		limited, cancel = context.WithTimeout(limited, ownRelease)
		defer cancel()
		_ = lease.Owner().WaitEnd(limited) // if it still exists, it is a foreign one
		return nil
	}
	folder, err = os.MkdirTemp(lease.Dir, "explore-*")
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("making a folder for kubeconfigs: %w", err), release())
	}
	return release, folder, nil
}

// ownRelease exceeds the time in which a control plane stops after the release of the last lease.
const ownRelease = 2 * time.Second

// existingCluster is the environment variable that selects an existing cluster.
const existingCluster = "TESTKIT_KUBECONFIG"

// run explores and reports.
func (e *exploration) run(ctx context.Context) error {
	var err error
	if e.admin, err = kube.New(e.config, kube.Options{}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := e.creator.sweep(ctx, e.admin); err != nil {
		return err
	}
	if err := e.rehearse(ctx); err != nil {
		return err
	}
	r, err := e.explore(ctx)
	e.bar.end()
	var start *explore.StartError
	var wrong *usageError
	switch {
	case errors.As(err, &wrong):
		return wrong
	case errors.As(err, &start) && !hasResults(r):
		return usagef("explore: %w", start)
	}
	if r != nil && len(r.Runs) > 0 {
		err = errors.Join(err, e.writeReports(r))
	}
	switch {
	case err != nil:
		return err
	case len(r.Failures()) > 0:
		return exitError(exitFailed)
	default:
		return nil
	}
}

// rehearse checks that the API server accepts the scenario's objects, in a namespace without an operator.
func (e *exploration) rehearse(ctx context.Context) (err error) {
	namespace, err := e.creator.namespace(ctx, e.admin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, deleteNamespace(context.WithoutCancel(ctx), e.admin, namespace)) }()
	err = e.input.scenario.Rehearse(ctx, e.admin, namespace.Name)
	if mistake, ok := errors.AsType[*scenario.Error](err); ok {
		return usagef("explore: %w", mistake)
	}
	return err
}

// explore executes the runs, in parallel if the program supports it.
func (e *exploration) explore(ctx context.Context) (*report.Report, error) {
	parallel := e.options.parallel
	if parallel == 0 {
		parallel = perProcessor * runtime.GOMAXPROCS(0)
	}
	r, note, err := e.attempt(ctx, parallel)
	if parallel == 1 || ctx.Err() != nil || !endedByItself(r, err) {
		return noted(r, note), err
	}
	// Three parallel operators have ended. They may need the same port or the same file.
	e.bar.say("the operator ended by itself where several of it ran at once: trying again, one at a time")
	r, note, err = e.attempt(ctx, 1)
	if endedByItself(r, err) {
		return noted(r, note), err
	}
	return noted(r, note, "the operator ended by itself where several of it ran at once, for example because they want the "+
		"same port: there was one run at a time, as with --parallel 1"), err
}

func noted(r *report.Report, notes ...string) *report.Report {
	if r != nil {
		r.Notes = append(r.Notes, slices.DeleteFunc(notes, func(n string) bool { return n == "" })...)
	}
	return r
}

// endedByItself reports whether the program ended without any fault.
func endedByItself(r *report.Report, err error) bool {
	if start, ok := errors.AsType[*explore.StartError](err); ok {
		return start.Ended
	}
	return r != nil && slices.ContainsFunc(r.Failures(), func(run report.Run) bool {
		ended := func(v report.Violation) bool { return v.Oracle == "exit" }
		return run.Fault == fault && slices.ContainsFunc(run.Violations, ended)
	})
}

// attempt explores with a given number of parallel runs.
func (e *exploration) attempt(ctx context.Context, parallel int) (r *report.Report, note string, err error) {
	o := e.options
	subject := &explore.Command{Args: o.command, Folder: e.folder, Target: e.target, Timeout: o.timeout}
	if len(e.input.webhooks) > 0 {
		hooks, err := newProgramWebhooks(e.input.webhooks, e.folder)
		if err != nil {
			return nil, "", err
		}
		subject.Webhooks = hooks.serve
	}
	options := explore.Options{
		Name: cmp.Or(o.name, operatorName(o.command)), Opener: kitadapter.OpenClusterWide, HideShared: true,
		Subject: subject, Faults: o.faults,
		Exceptions: explore.Exceptions{
			DisabledOracles: o.without, AllowResidue: o.allowResidue, ExternallyManaged: o.externallyManaged,
			Irreplaceable: o.irreplaceable,
		},
		QuietPeriod: o.quietPeriod, Timeout: o.givenTimeout(), StepQuietPeriod: programQuietPeriod,
		Parallel: parallel, Seed: o.seed, Replay: o.replay,
		SelectPlan: func(plan string) bool { return o.isWanted(plan) && !hasRun(e.input.former, plan) },
		Progress:   e.bar.step, Learning: e.bar.learned, Planned: e.bar.planned,
		Selection:     explore.Selection{MaxPlans: o.sample, Budget: o.budget, OnlyList: o.onlyList},
		StopAtFailure: o.stopAtFirst, Timelines: o.withTimelines,
	}
	options.Script(e.input.scenario)
	setup := options.Setup
	options.Setup = func(s *space.Space) error {
		if err := e.creator.mark(s.Context(), e.admin, s.Namespace); err != nil {
			return err
		}
		return setup(s)
	}
	x, err := explore.New(ctx, e.config, options)
	if err != nil {
		return nil, "", err
	}
	defer x.Close()
	e.bar.say("learning what %s does without a fault", x.Name)
	r, err = x.Run(ctx)
	if e.input.former != nil {
		r.Runs = append(r.Runs, e.input.former.Runs...)
	}
	if err == nil && len(r.Failures()) == 0 {
		err = o.inconclusive(r, x.Effects())
	}
	return r, allNamespacesNote(subject.AllNamespaces()), err
}

// inconclusive returns the reason why an exploration without findings has not tested anything.
func (o *exploreOptions) inconclusive(r *report.Report, effects int) error {
	if effects == 0 {
		return usagef("explore: %s: the operator wrote nothing in the runs without a fault, so that there was nothing to go "+
			"wrong: make the scenario's objects such that it has something to do, or correct its arguments", o.scenario)
	}
	for _, plan := range o.only {
		if plan != fault && !mentions(r, plan) {
			return usagef("explore: --only=%s: this operator and scenario have no such plan: a report without --only names all", plan)
		}
	}
	return nil
}

// mentions reports whether a report has a plan, run or not.
func mentions(r *report.Report, plan string) bool {
	return slices.ContainsFunc(r.Runs, func(run report.Run) bool { return run.Name == plan }) ||
		slices.ContainsFunc(r.Skipped, func(s report.Skipped) bool { return slices.Contains(s.Plans, plan) })
}

// fault is the name of the fault of baseline runs.
const fault = "none"

// target returns a configuration for the operator's ServiceAccount if it ships roles.
func (e *exploration) target(s *space.Space) (*rest.Config, error) {
	if e.input.policy == nil {
		return rest.CopyConfig(e.config), nil
	}
	return kitadapter.ServiceAccount(s, e.input.policy.account)
}
