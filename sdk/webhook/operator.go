package webhook

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/setup"
)

// ConversionPath is the path of the conversion webhook.
const ConversionPath = "/convert"

// Operator is an operator with webhooks. It is a plain value without state, like [sdk.Operator], whose methods it has. Its
// fields must not change after the first use.
//
// The functions are called concurrently, and by every replica. They get decoded copies. An error rejects the request. Its
// text is one sentence for the user. The text of a [field.Error], of several in [errors.Join] and of
// [field.ErrorList.ToAggregate] is that of the validation by a CustomResourceDefinition. An error with an APIStatus method,
// as of package api/errors, is returned unchanged.
type Operator[T sdk.Object] struct {
	*sdk.Operator[T] // required

	// Validate accepts or rejects the creation of an object, with a nil old object, or its update. The warnings are shown to
	// the user. Its path is [ValidationPath]. Optional.
	//
	// It is not called for an update of metadata or status alone, nor while the object is being deleted: an object that was
	// stored before a rule existed must remain usable, and its finalizer removable.
	Validate func(ctx context.Context, old, object T) (admission.Warnings, error)

	// ValidateDelete accepts or rejects a deletion. Its path is that of Validate. The webhook configuration must list the
	// operation DELETE. Optional.
	ValidateDelete func(ctx context.Context, object T) (admission.Warnings, error)

	// Default sets fields of an object that is created or updated, before it is validated. It must be idempotent, and must
	// leave the status: it is called again if another webhook changes the object. Like Validate, it is not called for an update
	// of metadata or status alone, nor while the object is being deleted: an older object may lack a newer default. Its path is
	// [DefaultPath]. Optional.
	Default func(ctx context.Context, object T) error

	// Conversion converts objects of the kind between API versions, as the ConversionReview protocol describes; see package
	// conversion. Its path is [ConversionPath]. In an existing manager, one operator alone may have a Conversion, which then
	// must convert the kinds of all. Optional.
	Conversion http.Handler
}

// SetupWithManager adds the operator and its webhooks to a manager. In an existing manager, which package program did not
// make, they are added to the manager's webhook server.
func (op *Operator[T]) SetupWithManager(mgr manager.Manager, opts ...sdk.SetupOption) error {
	if err := op.validate(); err != nil {
		return err
	}
	if err := op.Operator.SetupWithManager(mgr, opts...); err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(object.New[T](), mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("finding the kind of operator %s: %w", op.Name, err)
	}
	register := registerWithManager(mgr)
	if s := serverOf(setup.New(opts).Flags); s != nil {
		if register, err = s.setup(mgr, op.uses(gvk)); err != nil {
			return fmt.Errorf("preparing the webhooks of operator %s: %w", op.Name, err)
		}
	}
	if op.Validate != nil || op.ValidateDelete != nil {
		hook := admission.WithValidator(mgr.GetScheme(), validator[T]{op, gvk.GroupKind()})
		register(ValidationPath(gvk), hook)
	}
	if op.Default != nil {
		hook := admission.WithDefaulter(mgr.GetScheme(), defaulter[T]{op, gvk.GroupKind()})
		register(DefaultPath(gvk), hook)
	}
	if op.Conversion != nil {
		register(ConversionPath, op.Conversion)
	}
	return nil
}

// SetupInNamespaces is SetupWithManager with [sdk.InNamespaces]: see [sdk.Operator.SetupInNamespaces].
func (op *Operator[T]) SetupInNamespaces(mgr manager.Manager, namespaces ...string) error {
	return op.SetupWithManager(mgr, sdk.InNamespaces(namespaces...))
}

// DefineFlags calls the function [DefineFlags]. It implements program.FlagDefiner.
func (op *Operator[T]) DefineFlags(fs *flag.FlagSet) { DefineFlags(fs) }

// ValidationPath returns the path of the validating webhook for a kind. It is the path that controller-runtime uses.
func ValidationPath(gvk schema.GroupVersionKind) string { return path("validate", gvk) }

// DefaultPath returns the path of the mutating webhook for a kind. It is the path that controller-runtime uses.
func DefaultPath(gvk schema.GroupVersionKind) string { return path("mutate", gvk) }

func path(prefix string, gvk schema.GroupVersionKind) string {
	return "/" + prefix + "-" + strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
}

func (op *Operator[T]) validate() error {
	switch {
	case op.Operator == nil:
		return errors.New("webhook.Operator: field Operator is nil: set it to the sdk.Operator of the kind")
	case op.Validate == nil && op.ValidateDelete == nil && op.Default == nil && op.Conversion == nil:
		return fmt.Errorf("operator %q has no webhook: set Validate, ValidateDelete, Default or Conversion, or run the "+
			"sdk.Operator itself", op.Name)
	}
	return nil
}

// uses returns what the server has to know of the webhooks.
func (op *Operator[T]) uses(gvk schema.GroupVersionKind) uses {
	return uses{
		kind:       gvk.GroupKind(),
		validates:  op.Validate != nil || op.ValidateDelete != nil,
		defaults:   op.Default != nil,
		conversion: op.Conversion,
	}
}

// registerWithManager returns the function that adds a handler to the manager's webhook server.
func registerWithManager(mgr manager.Manager) func(path string, hook http.Handler) {
	return func(path string, hook http.Handler) { mgr.GetWebhookServer().Register(path, hook) }
}
