// Package setup holds the options of an operator in a manager, shared by packages sdk and program.
package setup

import "flag"

// DefaultWorkers is the default number of objects that are reconciled concurrently.
const DefaultWorkers = 8

// Options are the options of one use of an operator.
type Options struct {
	Namespaces []string // none means all
	Workers    int
	Flags      *flag.FlagSet // of the program; nil without one
}

// New returns the options with their defaults.
func New[F ~func(*Options)](opts []F) Options {
	o := Options{Workers: DefaultWorkers}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}
