// Command homeostat-engine runs an operator whose reconcile is a function in another language:
//
//	homeostat-engine operator.yaml [flags] -- python3 reconcile.py
//	homeostat-engine operator.yaml --function-url http://127.0.0.1:8080/ [flags]
//
// The first argument is the declaration of the operator, see package function. The command after two dashes is the function
// as a process, which is started and supervised; --function-url names a server instead. If both are given, the command is
// not used. The manifests of CompositeControllers and DecoratorControllers of Metacontroller are declarations too: their
// hooks are the function, and --function-url replaces the scheme and the host of the URLs. The other flags are those of each
// operator: see --help.
//
//	homeostat-engine conformance -- COMMAND
//
// checks a library for functions in another language: see function.CheckConformance.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/homeostat-dev/homeostat/sdk/function"
	"github.com/homeostat-dev/homeostat/sdk/function/metacontroller"
	"github.com/homeostat-dev/homeostat/sdk/program"
)

func main() {
	if len(os.Args) > 3 && os.Args[1] == "conformance" && os.Args[2] == "--" {
		if err := function.CheckConformance(context.Background(), &function.Process{Command: os.Args[3:]}, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(1)
		}
		return
	}
	p, args, err := newProgram(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Args = append(os.Args[:1:1], args...)
	p.Main()
}

const usage = "homeostat-engine DECLARATION [flags] -- COMMAND [ARGUMENTS]"

// newProgram returns the program for the arguments, and its flags.
func newProgram(args []string) (*program.Program, []string, error) {
	var command []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, command = args[:i], args[i+1:]
	}
	op := &function.Operator{}
	var controllers []*metacontroller.Controller
	process := &function.Process{Command: command}
	server := &function.Server{}
	p := &program.Program{Name: "homeostat-engine", Doc: "Runs an operator with a function in another language:\n" + usage}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		var err error
		if controllers, err = metacontroller.Load(args[0]); err != nil {
			return nil, nil, err
		}
		if len(controllers) > 0 {
			p.Name, p.Doc = (&metacontroller.Operator{Controller: controllers[0]}).Describe()
		} else if op.Config, err = function.Load(args[0]); err == nil {
			p.Name, p.Doc = op.Describe()
		}
		if err != nil {
			return nil, nil, err
		}
		args = args[1:]
	}
	p.Flags = func(fs *flag.FlagSet) { defineFlags(fs, op, process, server) }
	p.Operators = func() ([]program.Runnable, error) {
		if len(controllers) == 0 {
			return []program.Runnable{op}, setFunction(op, process, server)
		}
		var all []program.Runnable
		for _, c := range controllers {
			all = append(all, &metacontroller.Operator{
				Controller: c, Base: server.URL, MaxAnswer: process.MaxAnswer, PurityChecks: op.PurityChecks,
			})
		}
		return all, nil
	}
	return p, args, nil
}

// setFunction selects the way to the function after all flags have their values.
func setFunction(op *function.Operator, process *function.Process, server *function.Server) error {
	switch {
	case op.Config.Name == "":
		return errors.New("the declaration of the operator is missing: " + usage)
	case process.Size < 1:
		return fmt.Errorf("--function-processes=%d: it must be at least 1", process.Size)
	case process.Timeout <= 0 || process.StartTimeout <= 0 || process.MaxAnswer <= 0:
		return errors.New("--function-timeout, --function-start-timeout and --function-max-answer must be positive")
	case server.URL != "":
		server.Timeout = process.Timeout
		server.MaxAnswer = process.MaxAnswer
		op.Function = server
	case len(process.Command) > 0:
		op.Function = process
	default:
		return errors.New("the function is missing: give its command after --, or --function-url")
	}
	return op.Function.Validate()
}

func defineFlags(fs *flag.FlagSet, op *function.Operator, process *function.Process, server *function.Server) {
	fs.StringVar(&server.URL, "function-url", "",
		"server of the function: http://HOST:PORT/PATH, https://HOST:PORT/PATH or unix:///PATH; default: the command")
	if len(process.Command) == 0 {
		fs.Func("function-command", "command of the function, whose words are separated by spaces; default: the one after --",
			func(text string) error {
				if process.Command = strings.Fields(text); len(process.Command) == 0 {
					return errors.New("it must be a command")
				}
				return nil
			})
	}
	fs.IntVar(&process.Size, "function-processes", function.DefaultSize, "largest number of processes of the command")
	fs.DurationVar(&process.Timeout, "function-timeout", function.DefaultTimeout, "time for an answer")
	fs.DurationVar(&process.StartTimeout, "function-start-timeout", function.DefaultStartTimeout,
		"time for the first answer of a process")
	fs.IntVar(&process.MaxAnswer, "function-max-answer", function.DefaultMaxAnswer, "largest answer in bytes")
	fs.Func("function-purity-checks", "fraction of calls that are repeated, to check that equal requests have equal answers: "+
		"0 to 1; default: 0.01", func(text string) error {
		fraction, err := strconv.ParseFloat(text, 64)
		if err != nil || fraction < 0 || fraction > 1 {
			return errors.New("it must be a number from 0 to 1")
		}
		op.PurityChecks = fraction
		if fraction == 0 {
			op.PurityChecks = -1 // none
		}
		return nil
	})
}
