// Package configrollout rolls out Deployments, StatefulSets and DaemonSets when the ConfigMaps, and optionally the
// Secrets, that their pods use have changed.
//
// It has no kind of its own: users configure it with annotations, and it stores its state in annotations too. Package
// internal/policy decides about each workload as a function of the observed cluster state. This package observes the
// cluster and carries the decisions out.
package configrollout

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk/program"
)

// Name is the name of the operator, its controller, its leader election and its field manager.
const Name = "configrollout"

// New returns the operator. The error names an invalid option.
func New(o Options) (*program.CustomController, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &program.CustomController{
		Name: Name,
		Setup: func(mgr manager.Manager, namespaces []string, workers int) error {
			return setUp(mgr, o, namespaces, workers)
		},
		DryRun: func(ctx context.Context, cfg *rest.Config, namespaces []string, out io.Writer) error {
			return dryRun(ctx, cfg, o, namespaces, out)
		},
	}, nil
}

// Program returns the operator as a program with flags for its options.
func Program() *program.Program {
	o := DefaultOptions()
	return &program.Program{
		Name:  Name,
		Doc:   "The configrollout operator replaces pods when what they use of ConfigMaps and Secrets changes.",
		Flags: o.BindFlags,
		Operators: func() ([]program.Runnable, error) {
			op, err := New(o)
			if err != nil {
				return nil, fmt.Errorf("wrong options: %w", err)
			}
			return []program.Runnable{op}, nil
		},
	}
}
