// Package configrollout replaces the pods of Deployments, StatefulSets and DaemonSets when what they use of ConfigMaps and,
// if asked for, of Secrets changes.
//
// It has no kind of its own: users ask with annotations, and all that it has to remember is in annotations, too. What to do
// about a workload is decided in internal/decision, which is a function of what the cluster says. This package carries it
// out.
package configrollout

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk"
)

// Name is that of the operator: of its controller, its leader election and its field manager.
const Name = "configrollout"

// New returns the operator. An error names the option that is wrong.
func New(o Options) (*sdk.Custom, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &sdk.Custom{
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
func Program() *sdk.Program {
	o := DefaultOptions()
	return &sdk.Program{
		Name:  Name,
		Doc:   "The configrollout operator replaces pods when what they use of ConfigMaps and Secrets changes.",
		Flags: o.Flags,
		Operators: func() ([]sdk.Runnable, error) {
			op, err := New(o)
			if err != nil {
				return nil, fmt.Errorf("wrong options: %w", err)
			}
			return []sdk.Runnable{op}, nil
		},
	}
}
