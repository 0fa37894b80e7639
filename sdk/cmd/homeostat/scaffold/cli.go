package scaffold

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// The exit codes of [Main].
const (
	exitFailure = 1
	exitUsage   = 2
)

const usage = `Usage: homeostat new NAME --group GROUP --kind KIND [flags]
       homeostat add kind NAME [flags]
       homeostat add version VERSION [flags]
       homeostat add webhook [flags]

new writes the module of an operator that builds, passes its tests and is yours to change: in a checkout of Homeostat to
operators/NAME, anywhere else to ./NAME. Nothing that exists is overwritten.

  NAME              what the operator is called, for example web-shop
  --group GROUP     the API group, a domain of yours, for example shop.example.com
  --kind KIND       the kind of its objects, for example WebShop
  --version VERSION the version of the API (default v1alpha1)
  --scope SCOPE     Namespaced (default), or Cluster: its objects are in no namespace, and each gets one for its children
  --dir DIR         where to write the module
  --module PATH     the path of the module (default GROUP/NAME)
  --language LANG   go (default), or python, outside of a checkout: a function for homeostat-engine, its manifests and tests
  --homeostat DIR   the checkout of Homeostat to build with (default: the one that this program was built in); it is named
                    in files that are not committed

add changes the project that contains the current folder. Commit the project first. Files that exist get single lines. If it
does not find their place, it writes nothing and prints them, except for those of cmd/main.go, which it prints after it has
written the other files. add kind, add version, and add webhook for a second kind run controller-gen.

add kind writes another kind for the program: its API, its operator with tests in internal, its manifests and its sample.

  NAME              the kind, for example Coupon
  --group GROUP     its API group (default: that of the first kind)
  --version VERSION its version (default: that of the first kind)
  --scope SCOPE     Namespaced (default) or Cluster

add version writes another version of a kind, which is served and not stored: a copy of its Go types, the conversion with
tests in internal/versions, the webhook for the conversion, and a sample.

  VERSION           the version, for example v1beta1
  --kind KIND       the kind (default: the only one)

add webhook writes the webhooks of a kind: functions and tests in internal/webhooks, manifests in config/webhook, and the
lines of cmd/main.go and config that use them.

  --kind KIND       the kind (default: the only one)
  --validating      write a validating webhook (default: both)
  --defaulting      write a mutating webhook that sets defaults (default: both)
`

// usageError is an error in the user's input.
type usageError struct{ error }

func usageErrorf(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Main runs the command line and returns the exit code: 0 for success, 1 for a failure, 2 for wrong usage.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := run(ctx, args, stdout)
	switch wrong := (usageError{}); {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "homeostat: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "homeostat: %v\n", err)
		return exitFailure
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return usageErrorf("what is to be done? `homeostat --help` tells what can be")
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return flag.ErrHelp
	case "new":
		r, err := parse(args[1:])
		if err != nil {
			return err
		}
		return writeModule(ctx, r, stdout)
	case "add":
		return add(ctx, args[1:], stdout)
	default:
		return usageErrorf("there is no command %q: there are new and add, and `homeostat --help` tells how to use them", args[0])
	}
}

// add executes the command add.
func add(ctx context.Context, args []string, stdout io.Writer) error {
	parts := map[string]func(context.Context, []string, io.Writer) error{
		"kind": addKind, "version": addVersion, "webhook": addWebhook,
	}
	const known = "`homeostat add` adds a kind, a version or a webhook"
	if len(args) == 0 {
		return usageErrorf("what is to be added? %s", known)
	}
	switch part := args[0]; {
	case part == "help" || part == "-h" || part == "-help" || part == "--help":
		return flag.ErrHelp
	case parts[part] != nil:
		return parts[part](ctx, args[1:], stdout)
	default:
		return usageErrorf("%q cannot be added: %s", part, known)
	}
}

// request holds the arguments of the user.
type request struct{ name, group, kind, version, scope, dir, module, homeostat, language string }

// parse parses the arguments of the command new. Flags may precede or follow the name.
func parse(args []string) (request, error) {
	var r request
	flags := flag.NewFlagSet("new", flag.ContinueOnError)
	flags.StringVar(&r.group, "group", "", "")
	flags.StringVar(&r.kind, "kind", "", "")
	flags.StringVar(&r.version, "version", "v1alpha1", "")
	flags.StringVar(&r.scope, "scope", scopeNamespaced, "")
	flags.StringVar(&r.dir, "dir", "", "")
	flags.StringVar(&r.module, "module", "", "")
	flags.StringVar(&r.homeostat, "homeostat", "", "")
	flags.StringVar(&r.language, "language", languageGo, "")
	var err error
	if r.name, err = parseName(flags, args); err != nil {
		return r, err
	}
	return r, r.checkRequired()
}

// parseName parses flags, which may precede or follow a name, and returns the name, which may be missing.
func parseName(flags *flag.FlagSet, args []string) (string, error) {
	flags.SetOutput(io.Discard) // the error has the same text
	var names []string
	for rest := args; len(rest) > 0; {
		if err := flags.Parse(rest); errors.Is(err, flag.ErrHelp) {
			return "", err
		} else if err != nil {
			return "", usageErrorf("%w: `homeostat %s --help` lists the flags", err, flags.Name())
		}
		if rest = flags.Args(); len(rest) > 0 {
			names, rest = append(names, rest[0]), rest[1:]
		}
	}
	switch len(names) {
	case 0:
		return "", nil
	case 1:
		return names[0], nil
	default:
		return "", usageErrorf("there is more than one NAME (%s): give one, such as %s", strings.Join(names, ", "), names[0])
	}
}

// checkRequired returns an error that lists the missing arguments.
func (r *request) checkRequired() error {
	var missing []string
	for _, needed := range []struct{ value, name string }{
		{r.name, "NAME"}, {r.group, "--group GROUP"}, {r.kind, "--kind KIND"},
	} {
		if needed.value == "" {
			missing = append(missing, needed.name)
		}
	}
	if len(missing) > 0 {
		return usageErrorf("give %s, for example `homeostat new web-shop --group shop.example.com --kind WebShop`",
			strings.Join(missing, " and "))
	}
	return nil
}

// writeModule executes the command new and reports its results.
func writeModule(ctx context.Context, r request, stdout io.Writer) error {
	op, err := newOperator(r)
	if err != nil {
		return err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("finding the current folder: %w", err)
	}
	at, err := locate(r, cwd)
	if err != nil {
		return err
	}
	if at.root == "" && at.homeostat != "" {
		if err := errors.Join(at.checkPath(), at.findCommit(ctx)); err != nil {
			return err
		}
	}
	op.setLocation(at)
	write := create
	if op.Python {
		write = createPython
		fmt.Fprintf(stdout, "Writing %s to %s\n", op.Name, at.display)
	} else {
		fmt.Fprintf(stdout, "Writing %s to %s\n", op.Module, at.display)
	}
	if err := write(ctx, op, at); err != nil {
		return err
	}
	fmt.Fprint(stdout, op.nextSteps(ctx, at))
	return nil
}
