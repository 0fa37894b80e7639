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
	"strings"
	"syscall"
	"time"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
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
	Agreed   int     `json:"agreed,omitempty"` // repetitions with the same verdict, see -again
	Seconds  float64 `json:"seconds"`
}

func main() {
	testkit.RunHelperProcess()
	var o options
	flag.IntVar(&o.seeds, "seeds", 1, "how many seeds to explore each correct operator with; the first tries every plan")
	flag.IntVar(&o.sample, "sample", 10, "how many plans each further seed tries; 0 means all")
	flag.IntVar(&o.repetitions, "again", 0, "how many further times to explore each operator, to see whether the verdict stays")
	flag.BoolVar(&o.guard, "guard", false,
		"try the plans of go test -short alone, and fail if they miss a mutant or report a correct operator")
	flag.StringVar(&o.only, "only", "", "part of the names of the operators to explore")
	flag.StringVar(&o.plan, "plan", "", "part of the names of the plans to try")
	flag.StringVar(&o.out, "o", "", "file to write the result to, as JSON")
	flag.BoolVar(&o.verbose, "v", false, "print the reports of the runs that failed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

type options struct {
	seeds, sample   int
	repetitions     int
	only, plan, out string
	guard, verbose  bool
}

func run(ctx context.Context, o options) error {
	closeEnv := testkit.StartEnv(testkit.Env{
		FS: mutants.Files, CRDs: mutants.CRDs, RBAC: mutants.RBAC, AddToScheme: mutants.AddToScheme,
	})
	defer closeEnv()
	res := result{Seeds: o.seeds, PlainEnvtest: len(plain.Detected())}
	for _, m := range append(mutants.All(), mutants.CorrectTwins()...) {
		if !strings.Contains(m.Name, o.only) {
			continue
		}
		v, err := try(ctx, m, o)
		if err == nil {
			err = repeat(ctx, m, o, &v)
		}
		if err != nil {
			return fmt.Errorf("exploring %s: %w", m.Name, err)
		}
		switch {
		case m.IsCorrect():
			res.FalseAlarms += v.Alarms
		case v.Detected:
			res.Detected++
			fallthrough
		default:
			res.Mutants++
		}
		res.ByMutant = append(res.ByMutant, v)
		fmt.Printf("%-33s %-9s %-17s %s (%d runs, %d untried, %.1f s)\n",
			v.Name, verdictText(v), v.Oracle, v.Plan, v.Runs, v.Untried, v.Seconds)
		if o.repetitions > 0 {
			fmt.Printf("%-33s the same verdict %d times of %d\n", "", v.Agreed, o.repetitions)
		}
	}
	fmt.Printf("%d of %d mutants detected, %d by plain tests; %d false alarms over %d seeds\n",
		res.Detected, res.Mutants, res.PlainEnvtest, res.FalseAlarms, o.seeds)
	if o.guard && (res.Detected < res.Mutants || res.FalseAlarms > 0) {
		return errors.New("the plans of go test -short find less than all plans do: see MISSED and ALARM above")
	}
	return write(o.out, res)
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
	var steps []explore.Step
	for _, s := range m.Steps {
		steps = append(steps, kitadapter.Step(s.Name, s.Do))
	}
	cfg, err := testkit.Config(ctx)
	if err != nil {
		return verdict{}, err
	}
	x, err := explore.New(ctx, cfg, explore.Options{
		Name: m.Name, Opener: kitadapter.Open, Steps: steps, StopAtFailure: !m.IsCorrect(), Short: o.guard,
		SelectPlan: func(plan string) bool { return strings.Contains(plan, o.plan) },
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(m.Setup, append(opts, testkit.WithConfig(k.ServiceAccount(m.ServiceAccount)))...)
		}),
	})
	if err != nil {
		return verdict{}, err
	}
	defer x.Close()
	v := verdict{Name: m.Name, Class: m.Class, Correct: m.IsCorrect()}
	for seed := 1; seed == 1 || m.IsCorrect() && seed <= o.seeds; seed++ {
		x.Seed = int64(seed)
		if seed > 1 {
			x.MaxPlans = o.sample
		}
		r, err := x.Run(ctx)
		if err != nil {
			return verdict{}, err
		}
		v.add(r)
		if len(r.Failures()) > 0 && o.verbose {
			if err := report.WriteText(os.Stdout, r); err != nil {
				return verdict{}, err
			}
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
	v.Alarms += len(failed)
	if len(failed) > 0 && !v.Detected {
		v.Detected = true
		v.Oracle = failed[0].Violations[0].Oracle
		v.Plan = failed[0].Name
	}
}
