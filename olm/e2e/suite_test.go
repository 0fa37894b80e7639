package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// A suite is a cluster with a real OLM in it, a catalog, and pods that run the operators.
type suite struct {
	t        *testing.T
	k        *testkit.K
	began    time.Time
	projects map[string]*sandbox.Project // by the name of the operator
	versions fixture.Versions
	pods     *sandbox.PodRunner
	observer *fixture.Observer
	olm      *v0.OLM
	end      func() // stops the catalog that is served
}

func newSuite(t *testing.T, opts ...testkit.Option) *suite {
	t.Helper()
	var dirs []string
	for _, name := range names(t) {
		dirs = append(dirs, filepath.Join(operators, name))
	}
	return newSuiteOf(t, dirs, opts...)
}

// newSuiteOf returns a suite that runs the operators in some folders.
func newSuiteOf(t *testing.T, dirs []string, opts ...testkit.Option) *suite {
	t.Helper()
	s := &suite{t: t, k: testkit.New(t, opts...), began: time.Now(), projects: map[string]*sandbox.Project{}, end: func() {}}
	s.k.Timeout = 3 * time.Minute
	var err error
	if s.versions, err = fixture.NewVersions(released, bundles); err != nil {
		t.Fatal(err)
	}
	if s.observer, err = fixture.NewObserver(t.Context(), s.k.Client, s.k.Config, s.k.Namespace); err != nil {
		t.Fatal(err)
	}
	var all []*sandbox.Project
	for _, dir := range dirs {
		project, err := sandbox.Load(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		s.projects[project.Name] = project
		all = append(all, project)
	}
	s.pods, err = sandbox.RunPods(t.Context(), s.k.Config, all, sandbox.PodsOptions{
		Program: previous.Program, Report: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.pods.Stop(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	s.olm, err = v0.Start(t.Context(), s.k.Config, v0.Options{
		Programs: "../programs", Bundles: olm.BundlesIn(released, bundles), Dir: dir, Notice: notify,
		PlanTimeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.olm.Stop)
	s.olm.Watch(t)
	s.logElapsed("OLM runs")
	return s
}

// logElapsed logs an event with the time since the suite began.
func (s *suite) logElapsed(what string) {
	s.t.Helper()
	s.t.Logf("%3.0f s: %s", time.Since(s.began).Seconds(), what)
}

// serve replaces the catalog that is served.
func (s *suite) serve(catalog *declcfg.DeclarativeConfig) (address string) {
	s.t.Helper()
	s.end()
	address, end, err := v0.Serve(s.t.Context(), catalog, s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(end)
	s.end = end
	s.olm.Route("homeostat.olm.svc:50051", address)
	return address
}

// waitInstalled waits until each operator is installed in a version, and OLM has nothing left to do.
func (s *suite) waitInstalled(version string) {
	s.t.Helper()
	want := s.all(version)
	s.k.Wait(fmt.Sprintf("OLM to settle at %v", want), fixture.Stable(func(ctx context.Context) error {
		return v0.CheckInstalled(ctx, s.k.Client, want)
	}))
	s.logElapsed("all operators are at " + version)
}

// all returns the packages of all operators, at a version.
func (s *suite) all(version string) map[string]string {
	want := map[string]string{}
	for name := range s.projects {
		want[name+"-operator"] = version
	}
	return want
}

// csv returns the installed ClusterServiceVersion of an operator in a version.
func (s *suite) csv(name, version string) *v1alpha1.ClusterServiceVersion {
	s.t.Helper()
	csv := &v1alpha1.ClusterServiceVersion{}
	csv.Name = name + "-operator.v" + version
	csv.Namespace = name + "-operator"
	s.k.Get(csv)
	return csv
}

// uninstall uninstalls the operators as docs/install.md describes. It expects the objects, the definitions and the children
// to stay.
func (s *suite) uninstall(version string, objects []client.Object) {
	s.t.Helper()
	before := s.stableChildren()
	var deployments []client.Object
	for name := range s.projects {
		csv := s.csv(name, version)
		for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: owned.Name}}
			s.k.Get(crd)
			objects = append(objects, crd)
		}
		deployments = append(deployments, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Name: csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name, Namespace: csv.Namespace,
		}})
		s.k.Delete(&v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: csv.Namespace}})
		s.k.Delete(csv)
	}
	for _, d := range deployments {
		s.k.Eventually(d, testkit.Gone())
	}
	if diff := cmp.Diff(before, s.stableChildren()); diff != "" {
		s.t.Errorf("uninstalling changed what belongs to objects, -was +is:\n%s", diff)
	}
	for _, o := range objects {
		uid := o.GetUID()
		s.k.Get(o)
		if o.GetUID() != uid || o.GetDeletionTimestamp() != nil {
			s.t.Errorf("%s was %s and is %s, being deleted since %v", o.GetName(), uid, o.GetUID(), o.GetDeletionTimestamp())
		}
	}
	s.logElapsed("version " + version + " is uninstalled")
}

// apply applies a manifest of olm/install.
func (s *suite) apply(name string) {
	s.t.Helper()
	objects, err := fixture.Read(filepath.Join(manifests, name+".yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, o := range objects {
		s.k.Apply(o)
	}
}

// subscribe installs all operators with the manifests.
func (s *suite) subscribe() {
	s.t.Helper()
	for name := range s.projects {
		s.apply(name)
	}
}

// catalogOf returns the catalog of all operators, with all versions up to the given one, and with further bundles: their
// folders by their images.
func catalogOf(t *testing.T, last string, flavour olm.Flavour, further map[string]string) *declcfg.DeclarativeConfig {
	t.Helper()
	merged := &declcfg.DeclarativeConfig{}
	for _, name := range names(t) {
		data, err := os.ReadFile(filepath.Join(templates, name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		before, _, found := strings.Cut(string(data), "-bundle:v"+last+"\n")
		if !found {
			t.Fatalf("the template of %s has no version %s", name, last)
		}
		var text strings.Builder
		text.WriteString(before + "-bundle:v" + last + "\n")
		for image := range further {
			if strings.HasPrefix(image, "homeostat/"+name+"-bundle:") {
				text.WriteString("    - image: " + image + "\n")
			}
		}
		file := filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		catalog, err := olm.Render(t.Context(), file, func(image string) (string, error) {
			if dir := further[image]; dir != "" {
				return dir, nil
			}
			return olm.BundlesIn(released, bundles)(image)
		}, flavour)
		if err != nil {
			t.Fatal(err)
		}
		merged.Merge(catalog)
	}
	return merged
}
