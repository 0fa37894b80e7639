// Command pictures draws the pictures of the README from what programs really print.
//
//	pictures cast -o FILE -title TEXT -- COMMAND [ARGUMENT ...]
//	pictures timeline -o FILE -run NAME REPORT
//
// A cast runs a command and draws its output as an animated terminal; readers who prefer reduced motion see the last
// screen. A timeline draws one run of a JSON report of testkit explore. Both are SVG files that need no script and no
// font of their own, and that follow the reader's light or dark color scheme.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

var errUsage = errors.New("usage: pictures cast -o FILE -title TEXT -- COMMAND [ARGUMENT ...]\n" +
	"       pictures timeline -o FILE -run NAME REPORT")

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	out := flags.String("o", "", "the SVG file to write")
	title := flags.String("title", "", "the title of the terminal")
	name := flags.String("run", "", "the run of the report, by its name")
	if err := flags.Parse(args[1:]); err != nil {
		return errUsage
	}
	if *out == "" || flags.NArg() == 0 {
		return errUsage
	}
	switch args[0] {
	case "cast":
		lines, err := record(flags.Args(), os.Stdout)
		if err != nil {
			return err
		}
		return os.WriteFile(*out, drawCast(*title, lines), 0o644) //nolint:gosec // the file is an argument
	case "timeline":
		r, err := readRun(flags.Arg(0), *name)
		if err != nil {
			return err
		}
		return os.WriteFile(*out, drawTimeline(r), 0o644) //nolint:gosec // the file is an argument
	default:
		return errUsage
	}
}
