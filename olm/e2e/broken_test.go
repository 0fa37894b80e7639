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
	stages "github.com/homeostat-dev/homeostat/olm/internal/stage"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A version whose definitions live objects do not satisfy is stopped with a sentence that names the object and the field,
// and the one before it goes on working. OLM does not get over that when a repaired version is there, so an administrator
// comes to that, and back from it to an older one, by installing anew. What belongs to the objects stays as it is all the
// time.
func TestBrokenVersion(t *testing.T) {
	t.Parallel()
	const live = 2
	s := newStage(t, testkit.Private())
	current, broken, repaired := s.versions.Current, s.versions.Broken, s.versions.Repaired
	source := s.offer(catalogOf(t, current, olm.Inline, nil), nil)
	s.subscribe()
	s.settle(current)
	objects := s.populate(live)
	before := s.rest(current, live)

	further := s.bundles(broken, tenant(true))
	s.offer(catalogOf(t, current, olm.Inline, further), source)
	for name := range s.projects {
		if name != "configrollout" { // which has no definitions
			s.stopped(name, broken)
		}
	}
	s.did("the broken versions are stopped")
	for name := range s.projects {
		s.ready([]client.Object{s.create(name, "meanwhile")})
	}
	s.did("the old versions work")

	maps.Copy(further, s.bundles(repaired, tenant(false)))
	s.offer(catalogOf(t, current, olm.Inline, further), source)
	s.remain(current, repaired)

	// The way out is to take the operators out, and to install them again.
	s.withdraw()
	s.subscribe()
	s.settleAgain(repaired, s.apply)
	s.ready(objects)
	after := s.rest(repaired, live+1)
	withoutNew(after)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("coming to a repaired version changed what belongs to objects, -was +is:\n%s", diff)
	}

	// The way back is the same with a version, and an approval, so that it stays there. Objects lose what the older one
	// has no field for.
	s.use(objects)
	s.withdraw()
	s.subscribeTo(current)
	s.ready(objects)
	s.unused(objects)
	after = s.rest(current, live+1)
	withoutNew(after)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("going back changed what belongs to objects, -was +is:\n%s", diff)
	}
}

// withoutNew leaves out what belongs to the objects that were made in between.
func withoutNew(children map[string]string) {
	maps.DeleteFunc(children, func(name, _ string) bool { return strings.Contains(name, "meanwhile") })
}

// remain waits until OLM has seen what the catalog has, which one operator shows that has no definitions, and expects the
// others to stay at the version that they have.
func (s *stage) remain(current, repaired string) {
	s.t.Helper()
	free := &v1alpha1.ClusterServiceVersion{}
	free.Name, free.Namespace = "configrollout-operator.v"+repaired, "configrollout-operator"
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
	s.did("the repaired versions do not come by themselves")
}

// offer has the catalog say what versions there are from now on, at an address, without a pod of its own.
func (s *stage) offer(catalog *declcfg.DeclarativeConfig, source *v1alpha1.CatalogSource) *v1alpha1.CatalogSource {
	s.t.Helper()
	address := s.serve(catalog)
	if source == nil {
		source = &v1alpha1.CatalogSource{Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address}}
		source.Name, source.Namespace = "homeostat", v0.Namespace
		if err := s.k.Client.Create(s.t.Context(), source); err != nil {
			s.t.Fatal(err)
		}
	} else {
		s.k.Update(source, func() { source.Spec.Address = address })
	}
	ready(s.k, source)
	return source
}

// bundles makes a version of all operators, from those of now, and returns the folders by the names of their images.
func (s *stage) bundles(version string, change func(*apiextensionsv1.CustomResourceDefinition)) map[string]string {
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

func (s *stage) rewrite(file, version string, change func(*apiextensionsv1.CustomResourceDefinition)) {
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

// stopped waits until OLM has said why it does not install a version.
func (s *stage) stopped(name, version string) {
	s.t.Helper()
	s.k.Wait("OLM to stop "+name+" "+version, stages.Calmly(func(ctx context.Context) error {
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
			// Until it has failed, OLM tries again, and would bring back the version that somebody removes.
			if plan.Status.Phase != v1alpha1.InstallPlanPhaseFailed {
				return fmt.Errorf("it is %s", plan.Status.Phase)
			}
			return nil
		}
		return fmt.Errorf("there are the plans %v", plans.Items)
	}))
}

// withdraw takes all operators out, in whatever versions they are. A plan that OLM still tries would bring its version
// back. What they held the lease with is gone at the same moment, so it would take its time to expire.
func (s *stage) withdraw() {
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
	s.k.Wait("all operators to be out", stages.Calmly(func(ctx context.Context) error {
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
	s.did("all operators are out")
}

// settleAgain is settle after all operators were taken out.
func (s *stage) settleAgain(version string, subscribe func(operator string)) {
	s.t.Helper()
	steady(s.k, "OLM to settle again at "+version, func(ctx context.Context) error {
		if err := s.insist(ctx, subscribe); err != nil {
			return err
		}
		return look(ctx, s.k.Client, s.all(version))
	})
	s.did("all operators are at " + version)
}

// insist makes each Subscription anew that is about a version that is not there. What OLM was about to write when a version
// was removed it writes into the next Subscription of that name, which then waits for a version that nobody has.
func (s *stage) insist(ctx context.Context, subscribe func(operator string)) error {
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
		s.did(name + " is subscribed to a version that is gone, and again")
		if err := s.k.Client.Delete(ctx, subscription); err != nil {
			return err
		}
		subscribe(name)
		return fmt.Errorf("it was subscribed to %s", key.Name)
	}
	return nil
}

// subscribeTo installs a version of all operators, and no newer one.
func (s *stage) subscribeTo(version string) {
	s.t.Helper()
	subscribe := func(name string) {
		subscription := &v1alpha1.Subscription{Spec: &v1alpha1.SubscriptionSpec{
			CatalogSource: "homeostat", CatalogSourceNamespace: v0.Namespace, Package: name + "-operator", Channel: "stable-v0",
			StartingCSV: name + "-operator.v" + version, InstallPlanApproval: v1alpha1.ApprovalManual,
		}}
		subscription.Name, subscription.Namespace = name, name+"-operator"
		if err := s.k.Client.Create(s.t.Context(), subscription); err != nil {
			s.t.Fatal(err)
		}
	}
	for name := range s.projects {
		subscribe(name)
	}
	steady(s.k, "all operators to be back at "+version, func(ctx context.Context) error {
		errs := []error{s.insist(ctx, subscribe)}
		for name := range s.projects {
			errs = append(errs, s.approved(ctx, name, name+"-operator.v"+version))
		}
		return errors.Join(errs...)
	})
	s.did("all operators are back at " + version)
}

// approved approves the plan that installs a version, and returns why that is not installed.
func (s *stage) approved(ctx context.Context, name, version string) error {
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
