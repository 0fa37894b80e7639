package metacontroller

import (
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/function"
)

// Operator runs the hooks of a controller like a function.Operator. The CRDs of the parent and of the children must be
// installed when it starts, because a manifest of Metacontroller names kinds by their plural names.
type Operator struct {
	// Controller is the manifest. Required.
	Controller *Controller
	// Base and MaxAnswer are those of the [Transport].
	Base      string
	MaxAnswer int
	// PurityChecks is that of function.Operator.
	PurityChecks float64
}

// SetupWithManager adds the controller to a manager.
func (op *Operator) SetupWithManager(mgr manager.Manager, opts ...sdk.SetupOption) error {
	f, err := op.function(mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	return f.SetupWithManager(mgr, opts...)
}

// SetupInNamespaces is SetupWithManager with sdk.InNamespaces.
func (op *Operator) SetupInNamespaces(mgr manager.Manager, namespaces ...string) error {
	return op.SetupWithManager(mgr, sdk.InNamespaces(namespaces...))
}

// Describe returns the name and the description of the operator.
func (op *Operator) Describe() (name, doc string) {
	return op.Controller.Name, description(op.Controller)
}

// PrintPlans prints the plan of a reconcile for each object in the cluster, and writes nothing. The hooks are called.
func (op *Operator) PrintPlans(ctx context.Context, cfg *rest.Config, namespaces []string, out io.Writer) error {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return fmt.Errorf("preparing the connection: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, client)
	if err != nil {
		return fmt.Errorf("preparing the discovery of kinds: %w", err)
	}
	f, err := op.function(mapper)
	if err != nil {
		return err
	}
	return f.PrintPlans(ctx, cfg, namespaces, out)
}

func (op *Operator) function(mapper meta.RESTMapper) (*function.Operator, error) {
	t := &Transport{Controller: op.Controller, Base: op.Base, MaxAnswer: op.MaxAnswer, Mapper: mapper}
	config, err := t.Config()
	return &function.Operator{Config: config, Function: t, PurityChecks: op.PurityChecks}, err
}

func description(c *Controller) string {
	return "Runs the hooks of CompositeController " + c.Name + "."
}
