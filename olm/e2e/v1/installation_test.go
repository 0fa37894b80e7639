package v1_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// An installation is an operator that OLM installs.
type installation struct {
	t    *testing.T
	k    *testkit.K
	name string // of the operator
	home string // the namespace of the installation
	olm  *v1.OLM
	fixture.Versions
	observer  *fixture.Observer
	made      map[string]string // folders of generated bundles, by version
	catalog   *unstructured.Unstructured
	applied   []*unstructured.Unstructured // the manifests, including the ClusterExtension
	extension *unstructured.Unstructured
}

// newInstallation returns the installation of an operator by an OLM that other tests may share.
func newInstallation(t *testing.T, k *testkit.K, with *v1.OLM, name string) *installation {
	t.Helper()
	versions, err := fixture.NewVersions(released, bundles)
	if err != nil {
		t.Fatal(err)
	}
	return &installation{
		t: t, k: k, name: name, home: name + "-operator", olm: with, Versions: versions, made: map[string]string{},
	}
}

// dir returns the folder of the bundle of an image.
func (i *installation) dir(ref string) (string, error) {
	if dir := i.made[ref[strings.LastIndex(ref, ":v")+2:]]; dir != "" {
		return dir, nil
	}
	return olm.BundlesIn(released, bundles)(ref)
}

// csv returns the ClusterServiceVersion of a version of the operator.
func (i *installation) csv(version string) *v1alpha1.ClusterServiceVersion {
	i.t.Helper()
	dir, err := i.dir(olm.Repository + i.name + "-bundle:v" + version)
	if err != nil {
		i.t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "manifests", i.name+"-operator.clusterserviceversion.yaml"))
	if err != nil {
		i.t.Fatal(err)
	}
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := yaml.Unmarshal(data, csv); err != nil {
		i.t.Fatal(err)
	}
	return csv
}

// render renders the catalog of the operator: with all versions up to one of the template, or with all versions of the
// template and the generated ones. Versions that may be installed are never left out.
func (i *installation) render(last string) *declcfg.DeclarativeConfig {
	i.t.Helper()
	text, err := os.ReadFile(filepath.Join(templates, i.name+".yaml"))
	if err != nil {
		i.t.Fatal(err)
	}
	end := []byte("-bundle:v" + last + "\n")
	if before, _, found := bytes.Cut(text, end); found {
		text = slices.Concat(before, end)
	} else {
		for version := range i.made {
			text = fmt.Appendf(text, "    - image: %s%s-bundle:v%s\n", olm.Repository, i.name, version)
		}
	}
	file := filepath.Join(i.t.TempDir(), "template.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		i.t.Fatal(err)
	}
	catalog, err := olm.Render(i.t.Context(), file, i.dir, olm.Published)
	if err != nil {
		i.t.Fatal(err)
	}
	return catalog
}

// publish pushes a catalog and all bundles that it names, and returns its image.
func publish(t *testing.T, to *v1.OLM, tag string, find olm.Bundles, catalogs map[string]*declcfg.DeclarativeConfig) string {
	t.Helper()
	ref, err := to.Publish(t.Context(), catalogs, find, tag)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// offer publishes a catalog of the operator with all versions up to this one.
func (i *installation) offer(version string) {
	i.t.Helper()
	ref := publish(i.t, i.olm, i.name+"-"+version, i.dir, map[string]*declcfg.DeclarativeConfig{i.name: i.render(version)})
	if i.catalog == nil {
		i.catalog = addCatalog(i.t, i.k, "homeostat-"+i.name, ref)
		return
	}
	i.k.Update(i.catalog, func() { setRef(i.t, i.catalog, ref) })
	waitServed(i.k, i.catalog)
}

// addCatalog applies the manifest of the catalog, with the test's image.
func addCatalog(t *testing.T, k *testkit.K, name, ref string) *unstructured.Unstructured {
	t.Helper()
	objects, err := fixture.Read(filepath.Join(manifests, "catalog.yaml"))
	if err != nil || len(objects) != 1 {
		t.Fatal(len(objects), err)
	}
	catalog := objects[0]
	catalog.SetName(name)
	setRef(t, catalog, ref)
	k.Apply(catalog)
	waitServed(k, catalog)
	return catalog
}

// removeCatalog deletes a catalog while OLM is running, because OLM removes the finalizer.
func removeCatalog(k *testkit.K, catalog *unstructured.Unstructured) {
	k.Delete(catalog)
	k.Eventually(catalog, testkit.Gone())
}

func setRef(t *testing.T, catalog *unstructured.Unstructured, ref string) {
	t.Helper()
	if err := unstructured.SetNestedField(catalog.Object, ref, "spec", "source", "image", "ref"); err != nil {
		t.Fatal(err)
	}
}

// waitServed waits until OLM serves the current content of a catalog.
func waitServed(k *testkit.K, catalog *unstructured.Unstructured) {
	k.Eventually(catalog, testkit.Match("served", v1.IsServed))
}

// install applies the manifests of the operator.
func (i *installation) install() {
	i.t.Helper()
	objects, err := fixture.Read(filepath.Join(manifests, i.name+".yaml"))
	if err != nil {
		i.t.Fatal(err)
	}
	i.applied = objects
	for _, o := range objects {
		i.k.Apply(o)
		if o.GetKind() == "ClusterExtension" {
			i.extension = o
		}
	}
}

// waitInstalled waits until a version is installed, and OLM has nothing left to do.
func (i *installation) waitInstalled(version string) {
	i.t.Helper()
	i.k.Eventually(i.extension, testkit.Match("installed at "+version, func(u *unstructured.Unstructured) bool {
		return v1.IsInstalled(u, version)
	}))
	for _, crd := range i.definitions(version) {
		i.k.Eventually(crd, testkit.Condition("Established", metav1.ConditionTrue))
	}
	d := i.workload(version)
	i.k.Get(d)
	got, want := d.Spec.Template.Spec.Containers[0].Image, i.deployment(version).Spec.Template.Spec.Containers[0].Image
	if got != want || !strings.Contains(got, "@sha256:") {
		i.t.Errorf("the Deployment has the image %s, want %s with its digest", got, want)
	}
}

func (i *installation) deployment(version string) v1alpha1.StrategyDeploymentSpec {
	return i.csv(version).Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0]
}

// workload returns the name of the Deployment of a version.
func (i *installation) workload(version string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: i.deployment(version).Name, Namespace: i.home}}
}

// definitions returns the names of the definitions of a version.
func (i *installation) definitions(version string) []client.Object {
	var all []client.Object
	for _, owned := range i.csv(version).Spec.CustomResourceDefinitions.Owned {
		all = append(all, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: owned.Name}})
	}
	return all
}
