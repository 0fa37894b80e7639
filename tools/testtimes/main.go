// Command testtimes compares how long the packages took in a test run with the table of the repository.
//
// Machines differ and are shared, so that seconds cannot be compared. The command scales the table by the time of all
// packages together and fails if one package takes more than 1.5 times its share. It reads the events that
// go test -json and gotestsum --jsonfile write. It does not judge single tests: gotestsum tool slowest does.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	table := flag.String("table", "", "the table, a line for each package: its import path and its seconds")
	write := flag.Bool("write", false, "write the table from the run instead of comparing")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: testtimes -table FILE [-write] EVENTS")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *table == "" || flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	problems, err := run(*table, flag.Arg(0), *write)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testtimes:", err)
		os.Exit(2)
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func run(table, events string, write bool) ([]string, error) {
	file, err := os.Open(events)
	if err != nil {
		return nil, fmt.Errorf("reading the test run: %w", err)
	}
	defer func() { _ = file.Close() }()
	measured, err := measure(file)
	if errors.Is(err, errNothingRan) && !write {
		return nil, nil // there is nothing to compare
	}
	if err != nil {
		return nil, fmt.Errorf("reading the test run %s: %w", events, err)
	}
	if write {
		return nil, os.WriteFile(table, format(measured), 0o644)
	}
	data, err := os.ReadFile(table)
	if err != nil {
		return nil, fmt.Errorf("reading the table: %w", err)
	}
	expected, err := parse(string(data))
	if err != nil {
		return nil, fmt.Errorf("reading the table %s: %w", table, err)
	}
	return compare(expected, measured), nil
}
