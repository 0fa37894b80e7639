package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
)

// poll is the interval between two reads while Check waits.
const poll = 50 * time.Millisecond

// installation is an overlay on a control plane of its own.
type installation struct {
	*manifests

	operator         *Operator
	lease            *environment.Lease
	client           client.Client // with all permissions
	kubectl          func(ctx context.Context, args ...string) (string, error)
	samples          func(context.Context) (string, error) // writes a file
	warnings         []string                              // of both installations
	applied          string                                // the output of the second installation
	exampleNamespace string                                // for custom resources
	replicas         []*replica
	working          bool // a replica has reconciled an example
}

// install applies the overlay twice and waits until the API server serves its kinds.
func install(ctx context.Context, o *Operator, k *kubectl, m *manifests) (_ *installation, err error) {
	lease, err := environment.Acquire(ctx, environment.Request{
		Tier: cluster.Workloads, Binaries: k.set.Dir, Private: true, UntilGoCommandEnds: true,
	})
	if err != nil {
		return nil, fmt.Errorf("starting a control plane: %w", err)
	}
	i := &installation{manifests: m, operator: o, lease: lease}
	defer func() {
		if err != nil {
			i.close()
		}
	}()
	kubeconfig, err := k.kubeconfig(lease.Config)
	if err != nil {
		return nil, err
	}
	i.kubectl = func(ctx context.Context, args ...string) (string, error) { return k.run(ctx, kubeconfig, args...) }
	i.samples = func(ctx context.Context) (string, error) { return k.samples(ctx, m, o.Samples) }
	scheme, err := i.scheme()
	if err != nil {
		return nil, err
	}
	if i.client, err = client.New(lease.Config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	source, err := k.source(m)
	if err != nil {
		return nil, err
	}
	for range 2 {
		var warnings string
		if i.applied, warnings, err = k.runWarned(ctx, kubeconfig, append([]string{"apply"}, source...)...); err != nil {
			return nil, fmt.Errorf("installing overlay %s: %w", m.overlay.Dir, err)
		}
		if warnings != "" {
			i.warnings = append(i.warnings, warnings)
		}
	}
	if err := i.waitEstablished(ctx); err != nil {
		return nil, err
	}
	return i, i.makeNamespace(ctx)
}

func (i *installation) close() {
	for _, r := range i.replicas {
		_ = r.stop()
	}
	i.lease.Release()
}

// scheme returns a new scheme, because registering types in one that is in use is a data race.
func (i *installation) scheme() (*runtime.Scheme, error) {
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme)
	if i.operator.AddToScheme != nil {
		builder.Register(i.operator.AddToScheme)
	}
	scheme := runtime.NewScheme()
	if err := builder.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering Go types: %w", err)
	}
	return scheme, nil
}

// waitFor polls until missing returns "". The error has the last reason.
func (i *installation) waitFor(ctx context.Context, what string, missing func(context.Context) (string, error)) error {
	last := ""
	err := wait.PollUntilContextTimeout(ctx, poll, i.operator.Timeout, true, func(ctx context.Context) (bool, error) {
		reason, err := missing(ctx)
		if reason != "" {
			last = reason
		}
		return err == nil && reason == "", err
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w (%s)", what, err, last)
	}
	return nil
}

func (i *installation) waitEstablished(ctx context.Context) error {
	for _, crd := range i.crds {
		err := i.waitFor(ctx, "CustomResourceDefinition "+crd.Name, func(ctx context.Context) (string, error) {
			got := &apiextensionsv1.CustomResourceDefinition{}
			if err := i.client.Get(ctx, client.ObjectKeyFromObject(crd), got); err != nil {
				return "", client.IgnoreNotFound(err)
			}
			for _, c := range got.Status.Conditions {
				if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
					return "", nil
				}
			}
			return "it is not established", nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// makeNamespace creates the namespace for custom resources, unless the overlay watches an existing one.
func (i *installation) makeNamespace(ctx context.Context) error {
	if i.exampleNamespace = i.target(); i.exampleNamespace == "" {
		i.exampleNamespace = "conformance"
	}
	err := i.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.exampleNamespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	return nil
}

func idempotentInstall(_ context.Context, i *installation) ([]finding, error) {
	var found []finding
	for line := range strings.Lines(i.applied) {
		if !strings.HasSuffix(line, " unchanged\n") {
			found = append(found, finding{"kubectl apply", "the second installation changes " + strings.TrimSpace(line)})
		}
	}
	return found, nil
}

func noWarnings(_ context.Context, i *installation) ([]finding, error) {
	if len(i.warnings) == 0 {
		return nil, nil
	}
	return []finding{{"kubectl apply", strings.Join(i.warnings, "\n")}}, nil
}

const enforceLabel = "pod-security.kubernetes.io/enforce"

func restrictedPods(ctx context.Context, i *installation) ([]finding, error) {
	namespace := &corev1.Namespace{}
	if err := i.client.Get(ctx, client.ObjectKey{Name: i.namespace()}, namespace); err != nil {
		return nil, fmt.Errorf("reading the operator's namespace: %w", err)
	}
	var found []finding
	if got := namespace.Labels[enforceLabel]; got != "restricted" {
		found = append(found, finding{"Namespace " + namespace.Name, fmt.Sprintf("its label %s is %q", enforceLabel, got)})
	}
	pods := map[string]corev1.PodSpec{i.deployment.Name: i.deployment.Spec.Template.Spec}
	maps.Copy(pods, i.operator.Pods)
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace.Name}, Spec: pods[name]}
		switch err := i.client.Create(ctx, pod, client.DryRunAll); {
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			found = append(found, finding{"the pod of " + name, err.Error()})
		case err != nil:
			return found, fmt.Errorf("creating pod %s: %w", name, err)
		}
	}
	return found, nil
}

func checkSamplesAccepted(ctx context.Context, i *installation) ([]finding, error) {
	if i.operator.Samples == "" {
		return nil, nil
	}
	file, err := i.samples(ctx)
	if err == nil {
		// Server-side, because the samples may have objects that exist, such as the namespace default.
		_, err = i.kubectl(ctx, "apply", "--server-side", "-f", file)
	}
	if err != nil {
		return []finding{{i.operator.Samples, err.Error()}}, nil //nolint:nilerr // the finding has the error
	}
	return nil, nil
}

func columns(ctx context.Context, i *installation) ([]finding, error) {
	var found []finding
	for _, crd := range slices.Sorted(maps.Keys(i.operator.Columns)) {
		table, err := i.kubectl(ctx, "get", crd, "--all-namespaces")
		if err != nil {
			found = append(found, finding{crd, err.Error()})
			continue
		}
		header, _, _ := strings.Cut(table, "\n")
		got := strings.TrimPrefix(strings.Join(strings.Fields(header), " "), "NAMESPACE ")
		if want := i.operator.Columns[crd]; got != want {
			found = append(found, finding{crd, fmt.Sprintf("the columns are %q, want %q", got, want)})
		}
	}
	return found, nil
}

func categories(ctx context.Context, i *installation) ([]finding, error) {
	var found []finding
	for _, category := range i.operator.Categories {
		listed, err := i.kubectl(ctx, "get", category, "--all-namespaces", "-o", "name")
		if err != nil {
			found = append(found, finding{"category " + category, err.Error()})
			continue
		}
		for _, crd := range i.crds {
			if kind := crd.Spec.Names.Singular + "." + crd.Spec.Group + "/"; !strings.Contains("\n"+listed, "\n"+kind) {
				found = append(found, finding{"category " + category, "it does not list " + crd.Name})
			}
		}
	}
	return found, nil
}

var errStopped = errors.New("the replica ended")
