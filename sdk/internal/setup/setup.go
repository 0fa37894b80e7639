// Package setup holds the options of an operator in a manager, shared by packages sdk and program.
package setup

import (
	"flag"
	"fmt"
)

// DefaultWorkers is the default number of objects that are reconciled concurrently.
const DefaultWorkers = 8

// Options are the options of one use of an operator.
type Options struct {
	Namespaces []string // none means all
	Workers    int
	Flags      *flag.FlagSet // of the program; nil without one
}

// FlagError is an error in the value of a flag that is found during the setup. The exit code of the program is that of other
// wrong flags.
type FlagError struct{ error }

// NewFlagError returns a FlagError with a formatted text.
func NewFlagError(format string, args ...any) error { return &FlagError{fmt.Errorf(format, args...)} }

// New returns the options with their defaults.
func New[F ~func(*Options)](opts []F) Options {
	o := Options{Workers: DefaultWorkers}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}
