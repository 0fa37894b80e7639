package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// times are the seconds of packages by import path.
type times map[string]float64

// event is a line of go test -json, as far as it is needed here.
type event struct {
	Action  string  `json:"Action"`  //nolint:tagliatelle // go test -json writes it
	Package string  `json:"Package"` //nolint:tagliatelle // go test -json writes it
	Test    string  `json:"Test"`    //nolint:tagliatelle // go test -json writes it
	Elapsed float64 `json:"Elapsed"` //nolint:tagliatelle // as above, in seconds
	Output  string  `json:"Output"`  //nolint:tagliatelle // go test -json writes it
}

var errNothingRan = errors.New("it has no package that ran: all results are from the cache, or it is no test run")

// measure returns the time of each package that ran. Results from the cache of the go command are left out, because they
// took no time.
func measure(events io.Reader) (times, error) {
	measured := times{}
	cached := map[string]bool{}
	decoder := json.NewDecoder(bufio.NewReader(events))
	for {
		var e event
		switch err := decoder.Decode(&e); {
		case errors.Is(err, io.EOF):
			maps.DeleteFunc(measured, func(name string, _ float64) bool { return cached[name] })
			if len(measured) == 0 {
				return nil, errNothingRan
			}
			return measured, nil
		case err != nil:
			return nil, err
		}
		switch {
		case e.Test != "":
		case e.Action == "output" && strings.HasSuffix(e.Output, "\t(cached)\n"):
			cached[e.Package] = true
		case e.Action == "pass", e.Action == "fail":
			measured[e.Package] = e.Elapsed
		}
	}
}

const (
	// tolerance is the share that a package may take above the table.
	tolerance = 0.5
	// slack is added to that, in seconds: short packages vary by more than their share.
	slack = 10
)

// compare returns a sentence for each package that takes too long, in the order of their names. A package that is not in
// the table may take the slack.
func compare(expected, measured times) []string {
	scale := expected.scale(measured)
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		limit := expected[name]*scale*(1+tolerance) + slack
		if measured[name] <= limit {
			continue
		}
		if _, known := expected[name]; !known {
			problems = append(problems, fmt.Sprintf(
				"%s: takes %.0f s and is not in the table: shorten its tests, or run make test-times",
				name, measured[name]))
			continue
		}
		problems = append(problems, fmt.Sprintf("%s: takes %.0f s, and the table allows %.0f s: %.0f s on a machine "+
			"%.1f times as slow, plus %.0f %%: shorten its tests, or run make test-times",
			name, measured[name], limit, expected[name], scale, tolerance*100))
	}
	return problems
}

// scale is how much slower this machine was than that of the table, by the packages that both have.
func (expected times) scale(measured times) float64 {
	var before, now float64
	for name, seconds := range expected {
		if other, ran := measured[name]; ran {
			before += seconds
			now += other
		}
	}
	if before == 0 {
		return 1
	}
	return now / before
}

// format returns the table as text. Packages that take less than a second are left out.
func format(t times) []byte {
	var b strings.Builder
	b.WriteString("# Seconds of each package in make test-all. make test-times writes this file.\n")
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if t[name] >= 1 {
			fmt.Fprintf(&b, "%s %.0f\n", name, t[name])
		}
	}
	return []byte(b.String())
}

// parse reads a table.
func parse(text string) (times, error) {
	table := times{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, _ := strings.Cut(line, " ")
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("%q: want an import path, a space and seconds", line)
		}
		table[name] = seconds
	}
	return table, nil
}
