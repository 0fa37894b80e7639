package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/testkit"
)

// OLM rejects a version if live objects violate its definitions. The message names the object and the field, and the version
// before it keeps working. OLM does not recover when a repaired version is published. An administrator upgrades to it, and
// downgrades from it, by removing and installing the operators. The children of the objects stay unchanged all the time.
func TestBrokenVersion(t *testing.T) {
	t.Parallel()
	const live = 2
	s := newSuite(t, testkit.Private())
	current, broken, repaired := s.versions.Current, s.versions.Broken, s.versions.Repaired
	source := s.offer(catalogOf(t, current, olm.Inline, nil), nil)
	s.subscribe()
	s.waitInstalled(current)
	objects := s.populate(live)
	before := s.waitIdle(current, live)

	further := s.bundles(broken, tenant(true))
	s.offer(catalogOf(t, current, olm.Inline, further), source)
	for name := range s.projects {
		if name != "configrollout" { // it has no definitions
			s.waitRejected(name, broken)
		}
	}
	s.logElapsed("the broken versions are stopped")
	for name := range s.projects {
		s.waitReady([]client.Object{s.create(name, "meanwhile")})
	}
	s.logElapsed("the old versions work")

	maps.Copy(further, s.bundles(repaired, tenant(false)))
	s.offer(catalogOf(t, current, olm.Inline, further), source)
	s.waitUnchanged(current, repaired)

	// The upgrade: uninstall the operators, and install them again.
	s.uninstallAll()
	s.subscribe()
	s.waitReinstalled(repaired, s.apply)
	s.waitReady(objects)
	after := s.waitIdle(repaired, live+1)
	withoutNew(after)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("coming to a repaired version changed what belongs to objects, -was +is:\n%s", diff)
	}

	// The downgrade is the same, with a pinned version and an approval, so that it stays. Objects lose fields that the older
	// version does not have.
	s.setField(objects)
	s.uninstallAll()
	s.subscribeTo(current)
	s.waitReady(objects)
	s.expectNoField(objects)
	after = s.waitIdle(current, live+1)
	withoutNew(after)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("going back changed what belongs to objects, -was +is:\n%s", diff)
	}
}

// withoutNew removes the children of objects that were created in between.
func withoutNew(children map[string]string) {
	maps.DeleteFunc(children, func(name, _ string) bool { return strings.Contains(name, "meanwhile") })
}

// waitUnchanged waits until OLM has read the new catalog and has upgraded the operator without definitions. It expects all
// other operators to stay at their version.
func (s *suite) waitUnchanged(current, repaired string) {
	s.t.Helper()
	free := &v1alpha1.ClusterServiceVersion{}
	free.Name = "configrollout-operator.v" + repaired
	free.Namespace = "configrollout-operator"
	s.k.Eventually(free, testkit.Match("installed", func(csv *v1alpha1.ClusterServiceVersion) bool {
		return csv.Status.Phase == v1alpha1.CSVPhaseSucceeded
	}))
	for name := range s.projects {
		if name == "configrollout" {
			continue
		}
		var versions v1alpha1.ClusterServiceVersionList
		if err := s.k.Client.List(s.t.Context(), &versions, client.InNamespace(name+"-operator")); err != nil {
			s.t.Fatal(err)
		}
		for _, csv := range versions.Items {
			if csv.Spec.Version.String() == repaired {
				s.t.Errorf("OLM came to %s by itself: docs/install.md says that it does not", csv.Name)
			}
		}
		wanted := s.csv(name, current).Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0]
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: wanted.Name, Namespace: name + "-operator"}}
		s.k.Eventually(d, testkit.Ready())
		got, want := d.Spec.Template.Spec.Containers[0].Image, wanted.Spec.Template.Spec.Containers[0].Image
		if got != want {
			s.t.Errorf("%s runs %s, want %s, which was there before", name, got, want)
		}
	}
	s.logElapsed("the repaired versions do not come by themselves")
}

// offer serves a catalog at an address, without a pod for it.
func (s *suite) offer(catalog *declcfg.DeclarativeConfig, source *v1alpha1.CatalogSource) *v1alpha1.CatalogSource {
	s.t.Helper()
	address := s.serve(catalog)
	if source == nil {
		source = &v1alpha1.CatalogSource{Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address}}
		source.Name = "homeostat"
		source.Namespace = v0.Namespace
		if err := s.k.Client.Create(s.t.Context(), source); err != nil {
			s.t.Fatal(err)
		}
	} else {
		s.k.Update(source, func() { source.Spec.Address = address })
	}
	s.k.Eventually(source, testkit.Match("connected", v0.IsConnected))
	return source
}

// bundles creates a version of all operators from the current version, and returns the folders by the names of the images.
func (s *suite) bundles(version string, change func(*apiextensionsv1.CustomResourceDefinition)) map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for name := range s.projects {
		dir := s.t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(bundles, name))); err != nil {
			s.t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "manifests", "*.yaml"))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, file := range files {
			s.rewrite(file, version, change)
		}
		all["homeostat/"+name+"-bundle:v"+version] = dir
	}
	return all
}

func (s *suite) rewrite(file, version string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	s.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	switch text := string(data); {
	case strings.HasSuffix(file, ".clusterserviceversion.yaml"):
		data = []byte(strings.ReplaceAll(text, s.versions.Current, version))
	case strings.Contains(text, "kind: CustomResourceDefinition") && change != nil:
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &crd); err != nil {
			s.t.Fatal(err)
		}
		change(&crd)
		if data, err = yaml.Marshal(crd); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// waitRejected waits until OLM has reported the reason for not installing a version.
func (s *suite) waitRejected(name, version string) {
	s.t.Helper()
	s.k.Wait("OLM to stop "+name+" "+version, fixture.Throttle(func(ctx context.Context) error {
		var plans v1alpha1.InstallPlanList
		if err := s.k.Client.List(ctx, &plans, client.InNamespace(name+"-operator")); err != nil {
			return err
		}
		for _, plan := range plans.Items {
			if plan.Spec.ClusterServiceVersionNames[0] != name+"-operator.v"+version {
				continue
			}
			for _, want := range []string{
				"updated validation is too restrictive", "tenant: Required value", s.k.Namespace + "/" + name,
			} {
				if !strings.Contains(plan.Status.Message, want) {
					return fmt.Errorf("it says %q, want %q", plan.Status.Message, want)
				}
			}
			// Until the plan has failed, OLM retries it and would restore a removed version.
			if plan.Status.Phase != v1alpha1.InstallPlanPhaseFailed {
				return fmt.Errorf("it is %s", plan.Status.Phase)
			}
			return nil
		}
		return fmt.Errorf("there are the plans %v", plans.Items)
	}))
}

// uninstallAll uninstalls all operators, in any version. A plan that OLM still retries would restore its version. The
// permissions for the lease are deleted at the same time, so the lease is not released and has to expire.
func (s *suite) uninstallAll() {
	s.t.Helper()
	remove := func(name string, kinds ...client.Object) {
		for _, kind := range kinds {
			if err := s.k.Client.DeleteAllOf(s.t.Context(), kind, client.InNamespace(name+"-operator")); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	for name := range s.projects {
		remove(name, &v1alpha1.Subscription{}, &v1alpha1.InstallPlan{}, &v1alpha1.ClusterServiceVersion{})
	}
	s.k.Wait("all operators to be out", fixture.Throttle(func(ctx context.Context) error {
		var versions v1alpha1.ClusterServiceVersionList
		err := s.k.Client.List(ctx, &versions)
		if processes := s.pods.Processes(); err != nil || len(versions.Items) > 0 || len(processes) > 0 {
			return fmt.Errorf("%d versions and %d programs are there, %w", len(versions.Items), len(processes), err)
		}
		return nil
	}))
	for name := range s.projects {
		remove(name, &coordinationv1.Lease{})
	}
	s.logElapsed("all operators are out")
}

// waitReinstalled is waitInstalled after uninstallAll.
func (s *suite) waitReinstalled(version string, subscribe func(operator string)) {
	s.t.Helper()
	s.k.Wait("OLM to settle again at "+version, fixture.Stable(func(ctx context.Context) error {
		if err := s.recreateSubscriptions(ctx, subscribe); err != nil {
			return err
		}
		return v0.CheckInstalled(ctx, s.k.Client, s.all(version))
	}))
	s.logElapsed("all operators are at " + version)
}

// recreateSubscriptions recreates each Subscription that refers to a version that does not exist. When a version is removed,
// OLM writes its pending status into the next Subscription of the same name, which then waits for a missing version.
func (s *suite) recreateSubscriptions(ctx context.Context, subscribe func(operator string)) error {
	for name := range s.projects {
		subscription := &v1alpha1.Subscription{}
		key := client.ObjectKey{Namespace: name + "-operator", Name: name}
		if err := s.k.Client.Get(ctx, key, subscription); err != nil {
			return err
		}
		key.Name = subscription.Status.InstalledCSV
		if key.Name == "" {
			continue
		}
		if err := s.k.Client.Get(ctx, key, &v1alpha1.ClusterServiceVersion{}); !apierrors.IsNotFound(err) {
			if err != nil {
				return err
			}
			continue
		}
		s.logElapsed(name + " is subscribed to a version that is gone, and again")
		if err := s.k.Client.Delete(ctx, subscription); err != nil {
			return err
		}
		subscribe(name)
		return fmt.Errorf("it was subscribed to %s", key.Name)
	}
	return nil
}

// subscribeTo installs a version of all operators, and no newer one.
func (s *suite) subscribeTo(version string) {
	s.t.Helper()
	subscribe := func(name string) {
		subscription := &v1alpha1.Subscription{Spec: &v1alpha1.SubscriptionSpec{
			CatalogSource: "homeostat", CatalogSourceNamespace: v0.Namespace, Package: name + "-operator", Channel: "stable-v0",
			StartingCSV: name + "-operator.v" + version, InstallPlanApproval: v1alpha1.ApprovalManual,
		}}
		subscription.Name = name
		subscription.Namespace = name + "-operator"
		if err := s.k.Client.Create(s.t.Context(), subscription); err != nil {
			s.t.Fatal(err)
		}
	}
	for name := range s.projects {
		subscribe(name)
	}
	s.k.Wait("all operators to be back at "+version, fixture.Stable(func(ctx context.Context) error {
		errs := []error{s.recreateSubscriptions(ctx, subscribe)}
		for name := range s.projects {
			errs = append(errs, s.approve(ctx, name, name+"-operator.v"+version))
		}
		return errors.Join(errs...)
	}))
	s.logElapsed("all operators are back at " + version)
}

// approve approves the plan that installs a version. It returns an error until the version is installed.
func (s *suite) approve(ctx context.Context, name, version string) error {
	in := client.InNamespace(name + "-operator")
	var plans v1alpha1.InstallPlanList
	if err := s.k.Client.List(ctx, &plans, in); err != nil {
		return err
	}
	for _, plan := range plans.Items {
		if plan.Spec.ClusterServiceVersionNames[0] == version && plan.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval {
			plan.Spec.Approved = true
			if err := s.k.Client.Update(ctx, &plan); err != nil {
				return err
			}
		}
	}
	var versions v1alpha1.ClusterServiceVersionList
	if err := s.k.Client.List(ctx, &versions, in); err != nil {
		return err
	}
	for _, csv := range versions.Items {
		if csv.Name == version && csv.Status.Phase == v1alpha1.CSVPhaseSucceeded && len(versions.Items) == 1 {
			return nil
		}
	}
	return fmt.Errorf("%s is not installed: there are %d versions and %d plans", version, len(versions.Items), len(plans.Items))
}
