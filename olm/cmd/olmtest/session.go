package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

const (
	// waitTimeout limits each wait. Most of an installation is OLM waiting for its own components.
	waitTimeout  = 3 * time.Minute
	waitInterval = 200 * time.Millisecond
)

// A session is one execution of the command.
type session struct {
	options

	project  *sandbox.Project
	manifest []*unstructured.Unstructured // olm/install/v0.yaml
	source   *unstructured.Unstructured   // the CatalogSource in it
	refused  []*unstructured.Unstructured
	catalog  *declcfg.DeclarativeConfig
	version  string // of the current bundle

	notify func(line string)
	print  func(format string, args ...any)

	sandbox *sandbox.Sandbox
	client  client.Client
	dir     string // for the logs of OLM
	olm     *v0.OLM
	unserve func()
}

func (s *session) connect() (err error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(
		clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v0.AddToScheme(scheme),
	); err != nil {
		return err
	}
	s.client, err = client.New(s.sandbox.Config(), client.Options{Scheme: scheme})
	return err
}

// test installs, upgrades, uses and removes the operator.
func (s *session) test(ctx context.Context) error {
	former, err := s.formerCatalog()
	if err != nil {
		return err
	}
	if former == nil {
		if err := s.install(ctx, s.catalog); err != nil {
			return err
		}
	} else if err := s.upgrade(ctx, former); err != nil {
		return err
	}
	samples, err := s.createSamples(ctx, false)
	if err != nil {
		return err
	}
	csv := &v1alpha1.ClusterServiceVersion{}
	key := client.ObjectKey{Namespace: find(s.manifest, "Subscription").GetNamespace(), Name: s.csvName()}
	if err := s.client.Get(ctx, key, csv); err != nil {
		return err
	}
	if err := s.checkWebhooks(ctx, csv); err != nil {
		return err
	}
	if err := s.deleteAll(ctx, samples); err != nil {
		return err
	}
	return s.remove(ctx, csv)
}

// csvName returns the name of the current ClusterServiceVersion.
func (s *session) csvName() string { return s.packageName() + ".v" + s.version }

// packageName returns the name of the operator's package in the catalog.
func (s *session) packageName() string { return s.name + "-operator" }

// install serves a catalog, applies the manifest and waits until the last version in the catalog is installed.
func (s *session) install(ctx context.Context, catalog *declcfg.DeclarativeConfig) error {
	if err := s.serve(ctx, catalog); err != nil {
		return err
	}
	for _, o := range s.manifest {
		if err := s.client.Create(ctx, o); err != nil {
			return fmt.Errorf("installing %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return s.waitInstalled(ctx, catalog)
}

// upgrade installs the last version of a former catalog, and upgrades it while there are samples. They stay ready, and the
// new version deletes them.
func (s *session) upgrade(ctx context.Context, former *declcfg.DeclarativeConfig) error {
	if err := s.install(ctx, former); err != nil {
		return err
	}
	samples, err := s.createSamples(ctx, true)
	if err != nil {
		return err
	}
	if err := s.serve(ctx, s.catalog); err != nil {
		return err
	}
	// OLM connects to the new catalog at once if the image has another name.
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"image": "`+s.name+`-catalog:v`+s.version+`"}}`))
	if err := s.client.Patch(ctx, s.source, patch); err != nil {
		return fmt.Errorf("replacing the catalog: %w", err)
	}
	if err := s.waitInstalled(ctx, s.catalog); err != nil {
		return err
	}
	if err := s.waitReady(ctx, samples); err != nil {
		return err
	}
	return s.deleteAll(ctx, samples)
}

// serve replaces the catalog that is served.
func (s *session) serve(ctx context.Context, catalog *declcfg.DeclarativeConfig) error {
	if s.unserve != nil {
		s.unserve()
	}
	address, stop, err := v0.Serve(ctx, catalog, filepath.Join(s.dir, fmt.Sprintf("catalog-%d", len(catalog.Bundles))))
	if err != nil {
		return err
	}
	s.unserve = stop
	s.olm.Route(fmt.Sprintf("%s.%s.svc:50051", s.source.GetName(), s.source.GetNamespace()), address)
	return nil
}

// waitInstalled waits until OLM has installed the last version in a catalog.
func (s *session) waitInstalled(ctx context.Context, catalog *declcfg.DeclarativeConfig) error {
	versions := olm.Versions(catalog)
	last := versions[len(versions)-1]
	want := map[string]string{s.packageName(): last}
	err := s.wait(ctx, "installing version "+last, fixture.Stable(func(ctx context.Context) error {
		return v0.CheckInstalled(ctx, s.client, want)
	}))
	if err == nil {
		s.print("OLM v0 has installed %s.v%s", s.packageName(), last)
	}
	return err
}

// createSamples creates the samples that simulated nodes can serve, and waits until they are Ready. A former version may
// reject some of them.
func (s *session) createSamples(ctx context.Context, ofFormer bool) ([]*unstructured.Unstructured, error) {
	var samples []*unstructured.Unstructured
	for _, sample := range s.project.Samples {
		if slices.Contains(s.project.RealNodeSamples, sample) {
			continue
		}
		o := sample.DeepCopy()
		if err := s.setNamespace(o); err != nil {
			return nil, err
		}
		err := s.client.Create(ctx, o)
		if apierrors.IsInvalid(err) && ofFormer {
			s.print("sample %s %s is left out: %v", o.GetKind(), o.GetName(), err)
			continue
		}
		if client.IgnoreAlreadyExists(err) != nil { // such as another version of an object
			return nil, fmt.Errorf("creating sample %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		samples = append(samples, o)
	}
	return samples, s.waitReady(ctx, samples)
}

// setNamespace sets the namespace default if the object needs a namespace and has none, as kubectl does.
func (s *session) setNamespace(o *unstructured.Unstructured) error {
	namespaced, err := s.client.IsObjectNamespaced(o)
	if err != nil {
		return fmt.Errorf("looking for the kind %s: %w", o.GetKind(), err)
	}
	if namespaced && o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	return nil
}

func (s *session) waitReady(ctx context.Context, samples []*unstructured.Unstructured) error {
	for _, o := range samples {
		err := s.wait(ctx, fmt.Sprintf("waiting for sample %s %s", o.GetKind(), o.GetName()), func(ctx context.Context) error {
			if err := s.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if missing := testkit.Ready().Missing(o); missing != "" {
				return errors.New(missing)
			}
			return nil
		})
		if err != nil {
			return err
		}
		s.print("sample %s %s is ready", o.GetKind(), o.GetName())
	}
	return nil
}

// checkWebhooks creates the objects that a validating webhook of the operator has to refuse. The API server has called the
// webhooks for the samples already.
func (s *session) checkWebhooks(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	var names []string
	for _, w := range csv.Spec.WebhookDefinitions {
		if w.Type == v1alpha1.ValidatingAdmissionWebhook {
			names = append(names, w.GenerateName)
		}
	}
	for _, o := range s.refused {
		if err := s.setNamespace(o); err != nil {
			return err
		}
		err := s.client.Create(ctx, o)
		by := slices.IndexFunc(names, func(name string) bool {
			return err != nil && strings.Contains(err.Error(), fmt.Sprintf("admission webhook %q denied the request", name))
		})
		if by < 0 {
			return fmt.Errorf("creating %s %s of olm/refused: a webhook of %q has to refuse it; the answer: %w",
				o.GetKind(), o.GetName(), names, orAccepted(err))
		}
		s.print("%s", err)
	}
	if len(names) > 0 && len(s.refused) == 0 {
		s.print("no object in olm/refused shows that the webhooks refuse objects: %s", strings.Join(names, ", "))
	}
	return nil
}

func orAccepted(err error) error {
	if err == nil {
		return errors.New("accepted")
	}
	return err
}

// remove removes the operator, its definitions and the catalog. The Deployment and the webhooks have to disappear with the
// ClusterServiceVersion.
func (s *session) remove(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	if err := errors.Join(s.delete(ctx, find(s.manifest, "Subscription")), s.delete(ctx, csv)); err != nil {
		return err
	}
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		key := metav1.ObjectMeta{Namespace: csv.Namespace, Name: d.Name}
		if err := s.waitGone(ctx, &appsv1.Deployment{ObjectMeta: key}); err != nil {
			return err
		}
	}
	if err := s.wait(ctx, "waiting until the webhooks are removed", s.checkNoWebhooks); err != nil {
		return err
	}
	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		key := metav1.ObjectMeta{Name: owned.Name}
		if err := s.delete(ctx, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: key}); err != nil {
			return err
		}
	}
	if err := s.deleteAll(ctx, s.manifest); err != nil {
		return err
	}
	s.print("the operator, its definitions and the catalog are removed")
	return nil
}

// deleteAll deletes objects in reverse order.
func (s *session) deleteAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, o := range slices.Backward(objects) {
		if err := s.delete(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// checkNoWebhooks returns an error while the cluster has webhook configurations.
func (s *session) checkNoWebhooks(ctx context.Context) error {
	for _, list := range []client.ObjectList{
		&admissionregistrationv1.ValidatingWebhookConfigurationList{}, &admissionregistrationv1.MutatingWebhookConfigurationList{},
	} {
		if err := s.client.List(ctx, list); err != nil {
			return err
		}
		if n := meta.LenList(list); n > 0 {
			return fmt.Errorf("there are %d in %T", n, list)
		}
	}
	return nil
}

// delete deletes an object and waits until it is gone.
func (s *session) delete(ctx context.Context, o client.Object) error {
	if err := s.client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", o.GetName(), err)
	}
	return s.waitGone(ctx, o)
}

func (s *session) waitGone(ctx context.Context, o client.Object) error {
	return s.wait(ctx, fmt.Sprintf("waiting until %T %s is gone", o, o.GetName()), func(ctx context.Context) error {
		err := s.client.Get(ctx, client.ObjectKeyFromObject(o), o)
		switch {
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it exists, with the finalizers %q", o.GetFinalizers())
	})
}

// wait waits until a condition returns no error. It ends early if OLM or the cluster does. The error names what was awaited,
// and the last error of the condition.
func (s *session) wait(ctx context.Context, what string, condition func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, waitInterval, waitTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-s.olm.Done():
			return false, s.olm.Err()
		case <-s.sandbox.Done():
			return false, s.sandbox.Err()
		default:
		}
		if err := condition(ctx); err == nil || ctx.Err() == nil {
			last = err
		}
		return last == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errors.New("interrupted while " + what)
	case wait.Interrupted(err):
		return fmt.Errorf("%s: not in %v: %w", what, waitTimeout, last)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// printLogs prints the end of the operator's logs.
func (s *session) printLogs() {
	for _, p := range s.sandbox.Processes() {
		s.notify(fmt.Sprintf("the log of pod %s:\n%s", p.Name, p.LogTail()))
	}
}
