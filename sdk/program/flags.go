package program

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// parse sets every flag to the value of its argument, else of its environment variable, else its default. checks has the
// validation functions by flag name; they are called for each given value.
func parse(
	fs *flag.FlagSet, checks map[string]func() error, args []string, lookup func(string) (string, bool),
) error {
	var invalid error
	fs.VisitAll(func(f *flag.Flag) {
		f.Value = validatedValue{Value: f.Value, name: f.Name, check: checks[f.Name], rejected: &invalid}
	})
	if err := fromEnvironment(fs, lookup); err != nil {
		return err
	}
	fs.SetOutput(io.Discard)
	switch err := fs.Parse(args); {
	case err == flag.ErrHelp: //nolint:errorlint // package flag returns it unwrapped.
		return err
	case invalid != nil:
		return invalid
	case err != nil:
		return errors.New(strings.Replace(err.Error(), ": -", ": --", 1)) // two dashes, as in all other texts
	case fs.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: only flags are taken", fs.Arg(0))
	}
	return nil
}

// validatedValue is the value of a flag with a validation function.
type validatedValue struct {
	flag.Value
	name     string
	check    func() error // validates the value that was set; nil accepts all
	rejected *error       // the invalid argument, which package flag returns as text only
}

// Set implements flag.Value.
func (c validatedValue) Set(text string) error {
	err := c.Value.Set(text)
	if err != nil {
		if says := expected(c.Value); says != "" {
			err = errors.New("it must be " + says)
		}
	} else if c.check != nil {
		err = c.check()
	}
	if err != nil {
		*c.rejected = fmt.Errorf("--%s=%q: %w", c.name, text, err)
	}
	return err
}

// Unwrap returns the value that was defined. Package webhook finds its settings by it.
func (c validatedValue) Unwrap() flag.Value { return c.Value }

// IsBoolFlag reports to package flag whether the flag can stand without a value.
func (c validatedValue) IsBoolFlag() bool {
	b, ok := c.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// expected returns the description of a value of this type, or "" if the type's own error has one.
func expected(v flag.Value) string {
	getter, ok := v.(flag.Getter)
	if !ok {
		return ""
	}
	switch getter.Get().(type) {
	case bool:
		return "true or false"
	case int, int64, uint, uint64:
		return "a whole number"
	case float64:
		return "a number"
	case time.Duration:
		return "a duration, such as 5s or 10m"
	default:
		return ""
	}
}

// fromEnvironment sets every flag with a non-empty environment variable.
func fromEnvironment(fs *flag.FlagSet, lookup func(string) (string, bool)) error {
	var failed error
	fs.VisitAll(func(f *flag.Flag) {
		v, ok := lookup(variable(f.Name))
		if !ok || v == "" || failed != nil || isCommand(f.Name) {
			return
		}
		if err := f.Value.Set(v); err != nil {
			failed = fmt.Errorf("environment variable %s=%q: %w", variable(f.Name), v, err)
		}
	})
	return failed
}

func variable(flagName string) string {
	return strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

func usage(fs *flag.FlagSet, doc string, out io.Writer) {
	if doc != "" {
		fmt.Fprintf(out, "%s\n\n", doc)
	}
	fmt.Fprintf(out, "Usage: %s [flags]\n\nIt runs until SIGTERM or SIGINT. Each flag but --dry-run and --version can be set "+
		"by the environment variable\nin parentheses too; the flag wins.\n\n", fs.Name())
	fs.VisitAll(func(f *flag.Flag) {
		fmt.Fprintf(out, "  --%s", f.Name)
		if !isCommand(f.Name) {
			fmt.Fprintf(out, " (%s)", variable(f.Name))
		}
		fmt.Fprintf(out, "\n    \t%s", f.Usage)
		if f.DefValue != "" && f.DefValue != "false" && !strings.Contains(f.Usage, "default:") {
			fmt.Fprintf(out, "; default: %s", f.DefValue)
		}
		fmt.Fprintln(out)
	})
}
