// Command once runs a command unless it has succeeded before with the same files.
//
//	once -name charts -stamps build/passed -tests tools/charts operators sdk -- make test/tools/charts
//
// It is for tests that read folders of other modules, which the test cache of the go command does not know. The digest
// covers the Go version and the names and contents of all files in the folder of the tests and in the folders that they
// read. In the latter it leaves out Go tests, Markdown and testdata. Folders called build and .git are left out everywhere.
//
// With -tested BRANCH, the command does not run if its files are those of the last common commit with that branch: CI has
// tested that commit.
//
// The result of a command that failed is not kept. The command may depend on more, such as programs on the PATH: delete the
// folder of stamps to run everything again.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

func main() {
	code, err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "once:", err)
	}
	os.Exit(code)
}

const exitUsage = 2

// options are the arguments.
type options struct {
	name    string
	stamp   string // the file that holds the digest of the last success
	tests   string
	tested  string // a branch that CI has tested, or ""
	sources []string
	command []string
}

func parse(args []string, output io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("once", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.name, "name", "", "what the command tests; it names the stamp")
	stamps := flags.String("stamps", "", "the folder of stamps")
	flags.StringVar(&o.tests, "tests", "", "the folder of the tests")
	flags.StringVar(&o.tested, "tested", "", "a branch, such as origin/HEAD, that CI has tested with this command")
	own := args
	if i := slices.Index(args, "--"); i >= 0 {
		own = args[:i]
		o.command = args[i+1:]
	}
	if err := flags.Parse(own); err != nil {
		return o, err
	}
	if o.name == "" || *stamps == "" || o.tests == "" || len(o.command) == 0 {
		return o, errors.New("usage: once -name NAME -stamps FOLDER -tests FOLDER [FILE_OR_FOLDER ...] -- " +
			"COMMAND [ARGUMENT ...]")
	}
	o.stamp = filepath.Join(*stamps, o.name)
	o.sources = flags.Args()
	return o, nil
}

// run returns the exit code: that of the command, 0 if it need not run, or 2 with an error.
func run(args []string, stdout, stderr io.Writer) (int, error) {
	o, err := parse(args, stderr)
	if err != nil {
		return exitUsage, err
	}
	sum, err := digest(o.tests, o.sources)
	if err != nil {
		return exitUsage, fmt.Errorf("reading the files: %w", err)
	}
	if before, err := os.ReadFile(o.stamp); err == nil && string(before) == sum {
		fmt.Fprintf(stdout, "%s: passed before with the same files (rm %s runs it again)\n", o.name, o.stamp)
		return 0, nil
	}
	if o.skip(stdout) {
		return 0, nil
	}
	// A run that is interrupted leaves no stamp of an earlier one, which may have had other programs.
	if err := os.Remove(o.stamp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exitUsage, fmt.Errorf("removing the stamp: %w", err)
	}
	if code, err := execute(o.command, stdout, stderr); code != 0 || err != nil {
		return code, err
	}
	after, err := digest(o.tests, o.sources)
	if err != nil {
		return exitUsage, fmt.Errorf("reading the files: %w", err)
	}
	if after != sum { // files that changed during the run were not tested as they are now
		fmt.Fprintf(stdout, "%s: passed; files changed meanwhile, so that it runs again next time\n", o.name)
		return 0, nil
	}
	if err := write(o.stamp, sum); err != nil {
		return exitUsage, err
	}
	return 0, nil
}

// execute runs the command and returns its exit code, or 2 with an error if it has none.
func execute(command []string, stdout, stderr io.Writer) (int, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout = stdout
	cmd.Stderr = stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return exitUsage, fmt.Errorf("running %s: %w", command[0], err)
	}
	return 0, nil
}

func write(stamp, sum string) error {
	if err := os.MkdirAll(filepath.Dir(stamp), 0o755); err != nil {
		return fmt.Errorf("writing the stamp: %w", err)
	}
	if err := os.WriteFile(stamp, []byte(sum), 0o644); err != nil {
		return fmt.Errorf("writing the stamp: %w", err)
	}
	return nil
}

// digest identifies the names and contents of the files, and the Go version. A file or folder that does not exist is an
// error, because the digest would never change.
func digest(tests string, sources []string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version())
	if err := addFolder(sum, tests, func(string) bool { return true }); err != nil {
		return "", err
	}
	for _, source := range sources {
		if err := addFolder(sum, source, func(name string) bool { return name == source || isSource(name) }); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// isSource reports whether tests of other modules can depend on the file.
func isSource(name string) bool {
	return !strings.HasSuffix(name, "_test.go") && filepath.Ext(name) != ".md" &&
		!slices.Contains(strings.Split(filepath.ToSlash(name), "/"), "testdata")
}

// addFolder adds the files of a folder, or one file, that are wanted.
func addFolder(sum io.Writer, root string, wanted func(name string) bool) error {
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && (entry.Name() == "build" || entry.Name() == ".git"):
			return fs.SkipDir
		case !entry.Type().IsRegular() || !wanted(name):
			return nil
		}
		data, err := os.ReadFile(name) //nolint:gosec // the tree is the developer's own
		if err == nil {
			fmt.Fprintf(sum, "%s %d %x\n", name, len(data), sha256.Sum256(data))
		}
		return err
	})
}
