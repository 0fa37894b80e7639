package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

const mib = 1 << 20

// printTable prints one block of lines for each number of objects.
func printTable(out io.Writer, d document) {
	fmt.Fprintf(out, "\n%v; rounds: %d\n", d.Machine, d.Rounds)
	for _, n := range sizes(d.Results) {
		fmt.Fprintf(out, "\n%d objects, each with 4 children and a status:\n\n", n)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "contender\trequests/object\twall s\tCPU s\tAPI server CPU s\tRSS MiB\t"+
			"at rest\tchurn\trestart\trepair p50 ms\tp99 ms\t")
		for _, r := range d.Results {
			if r.N == n {
				fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%s\t%s\t%s\t%s\t%s\t\n", r.Candidate,
					r.RequestsPerObject, r.WallSeconds, r.OperatorCPUSeconds, r.APIServerCPUSeconds, r.RSSBytes/mib,
					formatInteger(r.SteadyRequests), formatInteger(r.ChurnRequests), formatInteger(r.RestartRequests),
					formatDecimal(r.DriftP50Millis), formatDecimal(r.DriftP99Millis))
			}
		}
		_ = w.Flush() // an error on standard output cannot be reported there
	}
}

func formatInteger(f *float64) string {
	if f == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", *f)
}

func formatDecimal(f *float64) string {
	if f == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", *f)
}

func sizes(results []result) []int {
	var all []int
	for _, r := range results {
		if !slices.Contains(all, r.N) {
			all = append(all, r.N)
		}
	}
	slices.Sort(all)
	return all
}

// goal is a limit for a measured value.
type goal struct {
	n     int // objects
	text  string
	got   float64
	limit float64
	below bool // got must be below the limit, not equal to it
}

func (g goal) met() bool { return g.got < g.limit || !g.below && g.got <= g.limit }

// goals compares the SDK with the other candidates, for each number of objects that was measured.
func goals(results []result) []goal {
	var all []goal
	var first *result
	for _, n := range sizes(results) {
		ours := find(results, "sdk", n)
		if ours == nil {
			continue
		}
		all = append(all, relativeGoals(results, ours)...)
		all = append(all, absoluteGoals(ours)...)
		if first == nil {
			first = ours
			continue
		}
		all = append(all, growthGoals(first, ours)...)
	}
	return all
}

func find(results []result, name string, n int) *result {
	i := slices.IndexFunc(results, func(r result) bool { return r.Candidate == name && r.N == n })
	if i < 0 {
		return nil
	}
	return &results[i]
}

// relativeGoals returns the goals that are relative to other candidates.
func relativeGoals(results []result, ours *result) []goal {
	n := ours.N
	var all []goal
	if floor := find(results, "floor", n); floor != nil {
		all = append(all,
			goal{n, "requests per object beyond floor", ours.RequestsPerObject - floor.RequestsPerObject, 1, false},
			goal{n, "CPU as a multiple of floor's", ours.OperatorCPUSeconds / floor.OperatorCPUSeconds, 1.5, false})
	}
	if floor := find(results, "apply-floor", n); floor != nil {
		all = append(all,
			goal{n, "wall time as a multiple of apply-floor's", ours.WallSeconds / floor.WallSeconds, 1.1, false})
	}
	if theirs := find(results, "kubebuilder", n); theirs != nil {
		all = append(all,
			goal{n, "CPU as a multiple of kubebuilder's", ours.OperatorCPUSeconds / theirs.OperatorCPUSeconds, 1, true},
			goal{n, "memory as a multiple of kubebuilder's", ours.RSSBytes / theirs.RSSBytes, 1.2, false})
	}
	return all
}

// absoluteGoals returns the goals with absolute limits.
func absoluteGoals(ours *result) []goal {
	var all []goal
	for _, g := range []struct {
		text  string
		got   *float64
		limit float64
		below bool
	}{
		{"requests at rest", ours.SteadyRequests, 0, false},
		{"requests while children's status changes", ours.ChurnRequests, 0, false},
		{"requests after a restart", ours.RestartRequests, 0, false},
		{"p99 of the time to repair, in ms", ours.DriftP99Millis, 50, true},
	} {
		if g.got != nil {
			all = append(all, goal{ours.N, g.text, *g.got, g.limit, g.below})
		}
	}
	return all
}

// growthGoals returns the goals for the growth of the cost of one object with the number of objects.
func growthGoals(few, many *result) []goal {
	times := func(cost func(*result) float64) float64 {
		return cost(many) / float64(many.N) / (cost(few) / float64(few.N))
	}
	return []goal{
		{
			many.N, fmt.Sprintf("CPU per object as a multiple of that with %d", few.N),
			times(func(r *result) float64 { return r.OperatorCPUSeconds }), 1.15, false,
		},
		{
			many.N, fmt.Sprintf("wall time per object as a multiple of that with %d", few.N),
			times(func(r *result) float64 { return r.WallSeconds }), 1.15, false,
		},
	}
}

func printGoals(out io.Writer, all []goal) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(out, "\nWhat the SDK aims at:")
	for _, g := range all {
		verdict, relation := "met", "at most"
		if !g.met() {
			verdict = "MISSED"
		}
		if g.below {
			relation = "less than"
		}
		fmt.Fprintf(out, "  %-6s  %d objects: %s: %.2f (%s %g)\n", verdict, g.n, g.text, g.got, relation, g.limit)
	}
}
