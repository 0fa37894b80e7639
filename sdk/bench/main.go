package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

func main() {
	log.SetLogger(logr.Discard()) // the installation of the CRD logs without it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	var usage *usageError
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2) // the conventional exit code for wrong usage
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// usageError is an error in the arguments.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// settings are the parsed arguments.
type settings struct {
	sizes  []int
	which  []candidate
	rounds int
	window time.Duration
	json   string
	svg    string

	profiles string
}

func parseArgs(args []string) (*settings, error) {
	s := &settings{sizes: []int{300, 1000, 3000}, which: candidates()}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Func("n", "numbers of objects, separated by commas; default: 300,1000,3000", func(v string) error {
		s.sizes = nil
		for word := range strings.SplitSeq(v, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil || n < 1 {
				return fmt.Errorf("%q is not a number of objects", word)
			}
			s.sizes = append(s.sizes, n)
		}
		slices.Sort(s.sizes)
		return nil
	})
	fs.Func("contenders", "some of floor, apply-floor, kubebuilder, sdk and sdk-python, separated by commas; default: all",
		func(v string) error {
			s.which = nil
			for word := range strings.SplitSeq(v, ",") {
				i := rank(strings.TrimSpace(word))
				if i < 0 {
					return fmt.Errorf("there is no contender %q", word)
				}
				s.which = append(s.which, candidates()[i])
			}
			return nil
		})
	fs.IntVar(&s.rounds, "rounds", 1, "how often to measure; the medians are reported")
	fs.DurationVar(&s.window, "window", 30*time.Second, "how long to count requests that should not come")
	fs.StringVar(&s.json, "o", "", "file for the results in JSON")
	fs.StringVar(&s.svg, "svg", "", "file for a picture of how the costs grow")
	fs.StringVar(&s.profiles, "profiles", "", "folder for a profile of each contender's CPU time while objects converge")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(os.Stderr)
		fs.Usage()
		return nil, err
	case err != nil:
		return nil, &usageError{fmt.Errorf("%w (see -help)", err)}
	case fs.NArg() > 0:
		return nil, &usageError{fmt.Errorf("unexpected argument %q", fs.Arg(0))}
	case s.rounds < 1:
		return nil, &usageError{fmt.Errorf("-rounds=%d: it must be at least 1", s.rounds)}
	}
	return s, nil
}

// document is the JSON output.
type document struct {
	Machine machine  `json:"machine"`
	Rounds  int      `json:"rounds"`
	Results []result `json:"results"`
}

func run(ctx context.Context, args []string) error {
	s, err := parseArgs(args)
	if err != nil {
		return err
	}
	host, err := thisMachine()
	if err != nil {
		return err
	}
	set, err := assets.Find(ctx, assets.Options{Programs: cluster.Programs(cluster.API), Progress: assets.Print(os.Stderr)})
	if err != nil {
		return err
	}
	programs, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(programs) }() // a leftover is in the temporary folder
	if err := build(ctx, programs, s.which); err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	if s.profiles != "" {
		if err := os.MkdirAll(s.profiles, 0o750); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
	}
	b := &bench{binaries: set.Dir, programs: programs, window: s.window, profiles: s.profiles, logf: say}
	all, err := b.measureAll(ctx, s)
	if len(all) == 0 {
		return err
	}
	d := document{Machine: host, Rounds: s.rounds, Results: medians(all)} // after an error: the earlier measurements
	printTable(os.Stdout, d)
	printGoals(os.Stdout, goals(d.Results))
	return errors.Join(err, s.write(d))
}

// measureAll measures all candidates with all sizes. It rotates the order of the candidates in each round, so that a
// candidate does not always follow the same other one.
func (b *bench) measureAll(ctx context.Context, s *settings) ([]result, error) {
	var all []result
	for round := range s.rounds {
		for _, n := range s.sizes {
			for i := range s.which {
				c := s.which[(i+round)%len(s.which)]
				b.logf("round %d of %d: %s with %d objects", round+1, s.rounds, c.name, n)
				r, err := b.measure(ctx, c, n)
				if err != nil {
					return all, err
				}
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// write stores the results in the files that the arguments name.
func (s *settings) write(d document) error {
	if s.json != "" {
		raw, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the results: %w", err)
		}
		if err := writeFile(s.json, append(raw, '\n')); err != nil {
			return err
		}
	}
	if s.svg != "" {
		raw, err := drawSVG(d.Results)
		if err != nil {
			return err
		}
		return writeFile(s.svg, raw)
	}
	return nil
}

func writeFile(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil { //nolint:gosec // the path is an argument
		return fmt.Errorf("making a folder: %w", err)
	}
	return os.WriteFile(file, content, 0o600) //nolint:gosec // the path is an argument
}
