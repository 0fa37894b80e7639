package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Operator describes the operator to check.
type Operator struct {
	// Setup adds the operator to a manager. It is called once for each replica. No namespaces mean all of them.
	Setup func(mgr manager.Manager, namespaces ...string) error
	// AddToScheme registers the Go types of the operator's kinds. Optional.
	AddToScheme func(*runtime.Scheme) error

	// Overlays are the kustomizations to check.
	Overlays []Overlay
	// Samples is a kustomization with custom resources. An overlay gets those in versions that it serves. Optional.
	Samples string
	// Conversion converts the custom resources of CustomResourceDefinitions with the conversion strategy Webhook, in place of
	// the operator's program. Optional.
	Conversion http.Handler
	// Columns are the columns that kubectl prints, by the name of the CustomResourceDefinition, separated by spaces.
	Columns map[string]string
	// Categories are the categories by which kubectl lists the custom resources, such as "all". Optional.
	Categories []string
	// Pods are specifications that a namespace with the Pod Security level "restricted" must admit, beside those of the
	// operator itself. The keys are their names.
	Pods map[string]corev1.PodSpec

	// Example returns objects to create in a namespace, such as one custom resource. All names must depend on name.
	Example func(namespace, name string) []client.Object
	// Missing returns the reason why the operator has not reconciled an object of Example, or "". Nil means that each
	// custom resource needs a true Ready condition, and that the objects of Kubernetes have to be ready.
	Missing func(*unstructured.Unstructured) string

	// LeaderElectionID is the name of the Lease that the operator's program uses. Empty means the name in the roles.
	LeaderElectionID string
	// AllowSecrets permits rules for Secrets in all overlays.
	AllowSecrets bool
	// Skip disables rules by name. The values are the reasons.
	Skip map[string]string
	// FirstOverlayOnly installs the first overlay only. The others are rendered and checked without an API server.
	FirstOverlayOnly bool
	// Timeout bounds each wait. Zero means one minute.
	Timeout time.Duration
}

// Overlay is one kustomization of the operator, with the CustomResourceDefinitions, the roles and the Deployment.
type Overlay struct {
	// Dir is the folder.
	Dir string
	// WatchNamespaces are the namespaces of the argument --watch-namespaces. Such an overlay must have no cluster-wide
	// permissions. Empty means the whole cluster.
	WatchNamespaces []string
	// AllowSecrets permits rules for Secrets.
	AllowSecrets bool
}

// Check checks an operator against all rules. A violation is in the error as a [Violation]; other errors mean that a rule
// could not be checked. The calling process must have called testkit.Main or testkit.RunHelperProcess.
func Check(ctx context.Context, o Operator) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	kubectl, err := newKubectl(ctx)
	if err != nil {
		return err
	}
	defer kubectl.close()
	if o.Conversion != nil {
		kubectl.conversion = httptest.NewTLSServer(o.Conversion)
		defer kubectl.conversion.Close()
	}
	var errs []error
	for i, overlay := range o.Overlays {
		m, err := kubectl.render(ctx, overlay)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, o.checkRendered(m)...)
		if i == 0 || !o.FirstOverlayOnly {
			errs = append(errs, o.checkInstalled(ctx, kubectl, m)...)
		}
	}
	return errors.Join(errs...)
}

func (o *Operator) validate() error {
	var errs []error
	if o.Setup == nil || o.Example == nil {
		errs = append(errs, errors.New("conformance: Setup and Example are required"))
	}
	if len(o.Overlays) == 0 {
		errs = append(errs, errors.New("conformance: there is no overlay to check"))
	}
	for name, reason := range o.Skip {
		if reason == "" || !isRule(name) {
			errs = append(errs, fmt.Errorf("conformance: Skip[%q]: name a rule and give a reason", name))
		}
	}
	return errors.Join(errs...)
}

func (o *Operator) checkRendered(m *manifests) []error {
	var errs []error
	for _, r := range rules {
		if r.rendered != nil && o.Skip[r.Name] == "" {
			errs = append(errs, r.violations(m.overlay, r.rendered(o, m))...)
		}
	}
	return errs
}

func (o *Operator) checkInstalled(ctx context.Context, k *kubectl, m *manifests) []error {
	if !o.needsInstallation() {
		return nil
	}
	i, err := install(ctx, o, k, m)
	if err != nil {
		return []error{err}
	}
	defer i.close()
	var errs []error
	for _, r := range rules {
		if r.installed == nil || o.Skip[r.Name] != "" {
			continue
		}
		found, err := r.installed(ctx, i)
		errs = append(errs, r.violations(m.overlay, found)...)
		if err != nil {
			return append(errs, fmt.Errorf("checking %s of overlay %s: %w", r.Name, m.overlay.Dir, err))
		}
	}
	return errs
}

func (o *Operator) needsInstallation() bool {
	for _, r := range rules {
		if r.installed != nil && o.Skip[r.Name] == "" {
			return true
		}
	}
	return false
}
