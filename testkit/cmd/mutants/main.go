// Command mutants explores operators with one known bug each, and their correct twins, and reports the numbers of found
// bugs and of false alarms.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
	"github.com/homeostat-dev/homeostat/testkit/mutants/plain"
)

// result is the content of build/mutants.json.
type result struct {
	Mutants      int       `json:"mutants"`
	Detected     int       `json:"detected"`
	FalseAlarms  int       `json:"falseAlarms"`
	Seeds        int       `json:"seeds"`
	PlainEnvtest int       `json:"plainEnvtest"` // found by the tests in testkit/mutants/plain
	ByMutant     []verdict `json:"byMutant"`
	// MedianFailure is the median of the durations of failed runs with a fault, in seconds. It is 0 without any.
	MedianFailure float64 `json:"medianFailure"`
}

// verdict is the result for one operator.
type verdict struct {
	Name     string  `json:"name"`
	Class    string  `json:"class"`
	Correct  bool    `json:"correct,omitempty"`
	Detected bool    `json:"detected"`
	Oracle   string  `json:"oracle,omitempty"`
	Plan     string  `json:"plan,omitempty"`
	Alarms   int     `json:"alarms,omitempty"` // failed runs
	Runs     int     `json:"runs"`
	Untried  int     `json:"untried,omitempty"`
	Agreed   int     `json:"agreed,omitempty"`  // repetitions with the same verdict, see -again
	Partial  bool    `json:"partial,omitempty"` // the time was over before all plans were tried, see -budget
	Seconds  float64 `json:"seconds"`

	failures []time.Duration // of failed runs with a fault
}

func main() {
	testkit.RunHelperProcess()
	var o options
	flag.IntVar(&o.seeds, "seeds", 1, "how many seeds to explore each correct operator with; seed 1 tries every plan")
	flag.IntVar(&o.first, "first", 1, "the first seed; with another than 1, only correct operators are explored")
	flag.IntVar(&o.sample, "sample", 10, "how many plans each seed but 1 tries; 0 means all")
	flag.IntVar(&o.repetitions, "again", 0, "how many further times to explore each operator, to see whether the verdict stays")
	flag.BoolVar(&o.guard, "guard", false,
		"try the plans of go test -short alone, and fail if they miss a mutant or report a correct operator")
	flag.StringVar(&o.only, "only", "", "part of the names of the operators to explore")
	flag.StringVar(&o.plan, "plan", "", "part of the names of the plans to try")
	flag.StringVar(&o.out, "o", "", "file to write the result to, as JSON")
	flag.BoolVar(&o.proxy, "proxy", false,
		"run the operators as programs behind a proxy, as testkit explore does, instead of in this process")
	flag.DurationVar(&o.budget, "budget", 0, "how long to explore each operator at most; 0 means until all plans are tried")
	flag.DurationVar(&o.slow, "slow", 0, "explore a correct operator that retries after this time, and no other")
	serve := flag.String("serve", "", "run the operator of this name, with the kubeconfig in KUBECONFIG, and explore nothing")
	flag.BoolVar(&o.verbose, "v", false, "print the reports of the runs that failed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runOrServe(ctx, o, *serve)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

type options struct {
	first, seeds, sample int
	repetitions          int
	only, plan, out      string
	guard, verbose       bool
	proxy                bool
	budget, slow         time.Duration
}

func runOrServe(ctx context.Context, o options, serve string) error {
	if serve != "" {
		return serveOperator(ctx, serve)
	}
	return run(ctx, o)
}

// operators returns the operators to explore.
func operators(o options) []mutants.Mutant {
	if o.slow > 0 {
		return []mutants.Mutant{mutants.SlowRetry(o.slow)}
	}
	return slices.DeleteFunc(append(mutants.All(), mutants.CorrectTwins()...), func(m mutants.Mutant) bool {
		return !strings.Contains(m.Name, o.only) || o.first > 1 && !m.IsCorrect()
	})
}

func run(ctx context.Context, o options) error {
	closeEnv := testkit.StartEnv(testkit.Env{
		FS: mutants.Files, CRDs: mutants.CRDs, RBAC: mutants.RBAC, AddToScheme: mutants.AddToScheme,
		Private: true, // for operators that watch all namespaces
	})
	defer closeEnv()
	res := result{Seeds: o.seeds, PlainEnvtest: len(plain.Detected())}
	var failures []time.Duration
	expected, found, alarms := 0, 0, 0 // without the operators with a reason in Undetected
	for _, m := range operators(o) {
		v, err := try(ctx, m, o)
		if err == nil {
			err = repeat(ctx, m, o, &v)
		}
		if err != nil {
			return fmt.Errorf("exploring %s: %w", m.Name, err)
		}
		res.count(m, v)
		switch {
		case m.Undetected != "":
		case m.IsCorrect():
			alarms += v.Alarms
		default:
			expected++
			if v.Detected {
				found++
			}
		}
		res.ByMutant = append(res.ByMutant, v)
		failures = append(failures, v.failures...)
		fmt.Printf("%-33s %-9s %-17s %s (%d runs, %d untried, %.1f s)\n",
			v.Name, verdictText(v), v.Oracle, v.Plan, v.Runs, v.Untried, v.Seconds)
		if o.repetitions > 0 {
			fmt.Printf("%-33s the same verdict %d times of %d\n", "", v.Agreed, o.repetitions)
		}
	}
	res.setMedianFailure(failures)
	fmt.Printf("%d of %d mutants detected, %d by plain tests; %d false alarms over %d seeds\n",
		res.Detected, res.Mutants, res.PlainEnvtest, res.FalseAlarms, o.seeds)
	if o.guard && (found < expected || alarms > 0) {
		return errors.New("the plans of go test -short find less than all plans do: see MISSED and ALARM above")
	}
	return write(o.out, res)
}

// count adds the verdict on an operator to the totals.
func (r *result) count(m mutants.Mutant, v verdict) {
	if m.IsCorrect() {
		r.FalseAlarms += v.Alarms
		return
	}
	r.Mutants++
	if v.Detected {
		r.Detected++
	}
}

// setMedianFailure sets and prints the median time of failed runs.
func (r *result) setMedianFailure(failures []time.Duration) {
	if len(failures) == 0 {
		return
	}
	slices.Sort(failures)
	r.MedianFailure = failures[len(failures)/2].Seconds()
	fmt.Printf("a failed run took %.1f s (median of %d)\n", r.MedianFailure, len(failures))
}

// repeat explores an operator again with the same seeds, and counts the equal verdicts.
func repeat(ctx context.Context, m mutants.Mutant, o options, first *verdict) error {
	for range o.repetitions {
		v, err := try(ctx, m, o)
		if err != nil {
			return err
		}
		if verdictText(v) == verdictText(*first) && v.Oracle == first.Oracle {
			first.Agreed++
		} else {
			fmt.Printf("%-33s %-9s %-17s %s\n", v.Name, verdictText(v), v.Oracle, v.Plan)
		}
	}
	return nil
}

func verdictText(v verdict) string {
	switch {
	case v.Correct && v.Detected:
		return "ALARM"
	case v.Correct:
		return "clean"
	case v.Detected:
		return "detected"
	default:
		return "MISSED"
	}
}

func write(path string, res result) error {
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return os.WriteFile(path, append(data, '\n'), 0o644) //nolint:gosec // a result that every user may read
}

// try explores one operator: a mutant until a finding, its twin with every seed.
func try(ctx context.Context, m mutants.Mutant, o options) (verdict, error) {
	began := time.Now()
	x, end, err := newExplorer(ctx, m, o)
	if err != nil {
		return verdict{}, err
	}
	defer end()
	all := ctx
	if o.budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.budget)
		defer cancel()
	}
	v := verdict{Name: m.Name, Class: m.Class, Correct: m.IsCorrect()}
	for seed := o.first; seed == o.first || m.IsCorrect() && seed < o.first+o.seeds; seed++ {
		x.Seed = int64(seed)
		if seed > 1 {
			x.MaxPlans = o.sample
		}
		r, err := x.Run(ctx)
		isOver := errors.Is(ctx.Err(), context.DeadlineExceeded) && all.Err() == nil
		if err != nil && !isOver {
			return verdict{}, err
		}
		v.add(r)
		v.Partial = isOver
		if len(r.Failures()) > 0 && o.verbose {
			if err := report.WriteText(os.Stdout, r); err != nil {
				return verdict{}, err
			}
		}
		if isOver {
			break
		}
	}
	v.Seconds = time.Since(began).Seconds()
	return v, nil
}

func (v *verdict) add(r *report.Report) {
	v.Runs += len(r.Runs)
	for _, run := range r.Runs {
		if run.Outcome == report.Untried {
			v.Untried++
		}
	}
	failed := r.Failures()
	for _, run := range failed {
		if run.Fault != "none" {
			v.failures = append(v.failures, run.Duration)
		}
	}
	v.Alarms += len(failed)
	if len(failed) > 0 && !v.Detected {
		v.Detected = true
		v.Oracle = failed[0].Violations[0].Oracle
		v.Plan = failed[0].Name
	}
}
