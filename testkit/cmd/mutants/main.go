// Command mutants explores operators with one known bug each, and their correct twins, and says how many bugs were found
// and how many alarms were false.
package main

import (
	"context"
	"encoding/json"
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
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

// result is what build/mutants.json holds.
type result struct {
	Mutants     int       `json:"mutants"`
	Detected    int       `json:"detected"`
	FalseAlarms int       `json:"falseAlarms"`
	Seeds       int       `json:"seeds"`
	ByMutant    []verdict `json:"byMutant"`
}

// verdict is what came of one operator.
type verdict struct {
	Name     string  `json:"name"`
	Class    string  `json:"class"`
	Correct  bool    `json:"correct,omitempty"`
	Detected bool    `json:"detected"`
	Oracle   string  `json:"oracle,omitempty"`
	Plan     string  `json:"plan,omitempty"`
	Runs     int     `json:"runs"`
	Untried  int     `json:"untried,omitempty"`
	Seconds  float64 `json:"seconds"`
}

func main() {
	testkit.ServeIfAsked()
	seeds := flag.Int("seeds", 1, "how often to explore each correct operator, each time in another order")
	only := flag.String("only", "", "part of the names of the operators to explore")
	plan := flag.String("plan", "", "part of the names of the plans to try")
	out := flag.String("o", "", "file to write the result to, as JSON")
	verbose := flag.Bool("v", false, "print the reports of the runs that failed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, options{*seeds, *only, *plan, *out, *verbose})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

type options struct {
	seeds           int
	only, plan, out string
	verbose         bool
}

func run(ctx context.Context, o options) error {
	closeEnv := testkit.Open(testkit.Env{
		FS: mutants.Files, CRDs: mutants.CRDs, RBAC: mutants.RBAC, AddToScheme: mutants.AddToScheme,
	})
	defer closeEnv()
	res := result{Seeds: o.seeds}
	for _, m := range append(mutants.All(), mutants.Correct()...) {
		if !strings.Contains(m.Name, o.only) {
			continue
		}
		times := 1
		if m.Correct() {
			times = o.seeds
		} else {
			res.Mutants++
		}
		for seed := range times {
			v, err := try(ctx, m, int64(seed+1), o)
			if err != nil {
				return fmt.Errorf("exploring %s: %w", m.Name, err)
			}
			switch {
			case m.Correct() && v.Detected:
				res.FalseAlarms++
			case v.Detected:
				res.Detected++
			}
			res.ByMutant = append(res.ByMutant, v)
			fmt.Printf("%-45s %-9s %-20s %s (%d runs, %d untried, %.1f s)\n",
				v.Name, word(v), v.Oracle, v.Plan, v.Runs, v.Untried, v.Seconds)
		}
	}
	fmt.Printf("%d of %d mutants detected, %d false alarms in %d seeds\n", res.Detected, res.Mutants, res.FalseAlarms, o.seeds)
	return write(o.out, res)
}

func word(v verdict) string {
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
	return os.WriteFile(path, append(data, '\n'), 0o644) //nolint:gosec,wrapcheck // a result for everybody; the error names the file
}

func try(ctx context.Context, m mutants.Mutant, seed int64, o options) (verdict, error) {
	began := time.Now()
	var steps []explore.Step
	for _, s := range m.Steps {
		steps = append(steps, explore.Step{Name: s.Name, Do: s.Do})
	}
	cfg, err := testkit.Config(ctx)
	if err != nil {
		return verdict{}, err
	}
	x, err := explore.New(ctx, cfg, explore.Options{
		Name: m.Name, Steps: steps, StopAtFailure: true, Seed: seed, Parallel: 4, Patience: 30 * time.Second,
		Rest: 500 * time.Millisecond, Only: func(plan string) bool { return strings.Contains(plan, o.plan) },
		Subject: explore.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(m.Setup, append(opts, testkit.WithConfig(k.ServiceAccount(m.ServiceAccount)))...)
		}),
	})
	if err != nil {
		return verdict{}, err
	}
	defer x.Close()
	r, err := x.Run(ctx)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{Name: m.Name, Class: m.Class, Correct: m.Correct(), Runs: len(r.Runs)}
	for _, run := range r.Runs {
		if run.Outcome == report.Untried {
			v.Untried++
		}
	}
	if failed := r.Failures(); len(failed) > 0 {
		v.Detected, v.Oracle, v.Plan = true, failed[0].Violations[0].Oracle, failed[0].Name
		if o.verbose {
			err = report.WriteText(os.Stdout, r)
		}
	}
	v.Seconds = time.Since(began).Seconds()
	return v, err
}
