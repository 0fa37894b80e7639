package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// exploreOptions holds the arguments of explore.
type exploreOptions struct {
	crds, rbac, webhooks, faults, only              list
	without, reports                                list
	allowResidue, externallyManaged, irreplaceable  list
	account, scenario, name, former                 string
	quietPeriod, timeout, budget                    time.Duration
	parallel, sample                                int
	seed                                            int64
	workloads, onlyList, stopAtFirst, withTimelines bool
	command                                         []string
}

// list is a flag that may be repeated or have commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set implements flag.Value.
func (l *list) Set(value string) error {
	for part := range strings.SplitSeq(value, ",") {
		if part == "" {
			return errors.New("there is nothing")
		}
		*l = append(*l, part)
	}
	return nil
}

// values is a flag that may be repeated. The values may contain commas.
type values list

func (n *values) String() string { return strings.Join(*n, " ") }

// Set implements flag.Value.
func (n *values) Set(value string) error {
	*n = append(*n, value)
	return nil
}

// reportWriters maps file extensions to report formats.
var reportWriters = map[string]func(io.Writer, *report.Report) error{
	".txt":  func(w io.Writer, r *report.Report) error { return report.WriteText(w, r, report.Verbose()) },
	".xml":  report.WriteJUnit,
	".json": report.WriteJSON,
	".html": report.WriteHTML,
}

const (
	exploreSynopsis = "testkit explore [--crd FILE] --scenario FILE -- COMMAND [ARGUMENT ...]"

	defaultQuietPeriod = time.Second
	defaultTimeout     = 30 * time.Second
)

func (o *exploreOptions) define(f *flag.FlagSet) {
	for name, value := range map[string]flag.Value{
		"crd": (*values)(&o.crds), "rbac": (*values)(&o.rbac), "report": (*values)(&o.reports), "only": (*values)(&o.only),
		"webhooks": (*values)(&o.webhooks), "fault": &o.faults, "without": &o.without, "allow-residue": &o.allowResidue,
		"externally-managed": &o.externallyManaged, "irreplaceable": &o.irreplaceable,
	} {
		f.Var(value, name, "")
	}
	f.StringVar(&o.scenario, "scenario", "", "")
	f.StringVar(&o.account, "service-account", "", "")
	f.DurationVar(&o.quietPeriod, "quiet-period", defaultQuietPeriod, "")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "")
	f.DurationVar(&o.budget, "budget", 0, "")
	f.IntVar(&o.sample, "sample", 0, "")
	f.StringVar(&o.name, "name", "", "")
	f.StringVar(&o.former, "continue", "", "")
	f.BoolVar(&o.onlyList, "list", false, "")
	f.BoolVar(&o.stopAtFirst, "stop-at-first", false, "")
	f.BoolVar(&o.withTimelines, "timeline", false, "")
	f.IntVar(&o.parallel, "parallel", 0, "")
	f.Int64Var(&o.seed, "seed", 1, "")
	f.BoolVar(&o.workloads, "workloads", false, "")
}

func (c *command) exploreOptions(args []string) (o exploreOptions, err error) {
	if o.command, err = c.parse("explore", args, o.define); err != nil {
		return o, err
	}
	for _, check := range []func() error{
		o.checkRequired, o.checkNumbers, o.checkFaults, o.checkOracles, o.checkReports, o.checkCommand,
	} {
		if err := check(); err != nil {
			return o, &usageError{fmt.Errorf("explore: %w", err)}
		}
	}
	return o, nil
}

func (o *exploreOptions) checkRequired() error {
	switch {
	case len(o.command) == 0:
		return errors.New("which operator? Write: " + exploreSynopsis)
	case o.scenario == "":
		return errors.New("what is to happen to the operator? Write: " + exploreSynopsis)
	case o.account != "" && len(o.rbac) == 0:
		return fmt.Errorf("--service-account=%s: its roles are not known: give their files with --rbac", o.account)
	case len(o.webhooks) > 0 && os.Getenv(existingCluster) != "":
		return fmt.Errorf("--webhooks: the API server in %s cannot call processes of this machine: unset it", existingCluster)
	default:
		return nil
	}
}

func (o *exploreOptions) checkNumbers() error {
	switch {
	case o.quietPeriod <= 0:
		return fmt.Errorf("--quiet-period=%v: give a time that is longer than nothing, for example 1s", o.quietPeriod)
	case o.timeout <= o.quietPeriod:
		return fmt.Errorf("--timeout=%v: give a time that is longer than --quiet-period, which is %v", o.timeout, o.quietPeriod)
	case o.budget < 0:
		return fmt.Errorf("--budget=%v: give a time that is longer than nothing, for example 10m", o.budget)
	case o.sample < 0:
		return fmt.Errorf("--sample=%d: give a number of plans, or 0 for all", o.sample)
	case o.parallel < 0:
		return fmt.Errorf("--parallel=%d: give a number of runs, or 0 for as many as fit the machine", o.parallel)
	default:
		return nil
	}
}

func (o *exploreOptions) checkFaults() error {
	for _, fault := range o.faults {
		if !explore.IsFault(fault) {
			return fmt.Errorf("--fault=%s: there is no such fault: choose from %s; crash stands for all that begin with it",
				fault, strings.Join(explore.Faults(), ", "))
		}
	}
	return nil
}

func (o *exploreOptions) checkOracles() error {
	for _, oracle := range o.without {
		if !slices.Contains(explore.Oracles(), oracle) {
			return fmt.Errorf("--without=%s: there is no such oracle: choose from %s",
				oracle, strings.Join(explore.Oracles(), ", "))
		}
	}
	return nil
}

// checkReports checks first of all that the report files are writable.
func (o *exploreOptions) checkReports() error {
	for _, path := range o.reports {
		if reportWriters[filepath.Ext(path)] == nil {
			return fmt.Errorf("--report=%s: name a file that ends in .html, .xml (for JUnit), .json or .txt", path)
		}
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			return fmt.Errorf("--report=%s: there is no folder %s: make it, or name another one", path, filepath.Dir(path))
		}
	}
	return nil
}

func (o *exploreOptions) checkCommand() error {
	program := o.command[0]
	_, err := exec.LookPath(program)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s is not executable: make it so with chmod +x, or put its interpreter in front of it", program)
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no program %s: install it, or correct its path", program)
	default:
		return fmt.Errorf("%w: give another program", err)
	}
}

// isWanted reports whether a plan is selected.
func (o *exploreOptions) isWanted(plan string) bool {
	return len(o.only) == 0 || slices.Contains(o.only, plan)
}

// givenTimeout returns the timeout, or 0 if it is the default, which the exploration extends for slow retries.
func (o *exploreOptions) givenTimeout() time.Duration {
	if o.timeout == defaultTimeout {
		return 0
	}
	return o.timeout
}

// replay returns the command that runs one plan alone.
func (o *exploreOptions) replay(plan string) string {
	words := []string{"testkit", "explore"}
	for name, values := range o.repeated() {
		for _, value := range values {
			words = append(words, "--"+name, quote(value))
		}
	}
	add := func(given bool, name, value string) {
		if given {
			words = append(words, "--"+name, quote(value))
		}
	}
	add(true, "scenario", o.scenario)
	add(o.account != "", "service-account", o.account)
	add(o.name != "", "name", o.name)
	add(o.quietPeriod != defaultQuietPeriod, "quiet-period", o.quietPeriod.String())
	add(o.timeout != defaultTimeout, "timeout", o.timeout.String())
	add(o.parallel != 0, "parallel", strconv.Itoa(o.parallel))
	if o.workloads {
		words = append(words, "--workloads")
	}
	add(true, "only", plan)
	words = append(words, "--")
	for _, arg := range o.command {
		words = append(words, quote(arg))
	}
	return strings.Join(words, " ")
}

// repeated returns the repeated flags that affect a single plan, in order.
func (o *exploreOptions) repeated() func(func(string, list) bool) {
	return func(yield func(string, list) bool) {
		_ = yield("crd", o.crds) && yield("rbac", o.rbac) && yield("webhooks", o.webhooks) && yield("without", o.without) &&
			yield("allow-residue", o.allowResidue) && yield("externally-managed", o.externallyManaged) &&
			yield("irreplaceable", o.irreplaceable)
	}
}

// quote quotes a word for a shell.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
