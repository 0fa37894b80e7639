package realnodes_test

import (
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/olm/internal/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// OLM v1 installs an operator by a ClusterExtension. It runs in a pod of the image that the bundle names. A new catalog
// upgrades it; the container of an object runs on. The deletion of the ClusterExtension leaves nothing. This version of OLM
// refuses bundles with webhooks.
func TestV1(t *testing.T) {
	s := start(t)
	o, err := v1.Start(t.Context(), s.Config, v1.Options{Programs: programsV1, Dir: t.TempDir(), Notice: notify})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Stop)
	o.Watch(t)
	before := s.objects()
	catalog := s.read("v1/catalog")[0]
	s.publish(o, catalog, s.Previous)
	applied := s.apply("v1", immortal)
	extension := applied[len(applied)-1]
	s.waitExtension(extension, s.Previous)
	s.checkPod(immortal, s.Previous)
	server := s.newServer()

	s.publish(o, catalog, s.Current)
	s.waitExtension(extension, s.Current)
	s.checkPod(immortal, s.Current)
	server.checkSurvived()

	server.delete()
	s.Delete(extension)
	s.Eventually(extension, testkit.Gone())
	s.waitNoPods(immortal + "-operator")
	s.Delete(catalog)
	s.Eventually(catalog, testkit.Gone())
	s.deleteNamespaces(applied)
	s.logElapsed("OLM v1 has removed the operator")
	s.waitLeft(before)
}

// publish gives OLM a catalog with all versions of the operator up to one.
func (s *suite) publish(o *v1.OLM, catalog *unstructured.Unstructured, last string) {
	s.t.Helper()
	all, err := s.catalogs(s.t.Context(), last)
	if err != nil {
		s.t.Fatal(err)
	}
	ref, err := o.Publish(s.t.Context(), map[string]*declcfg.DeclarativeConfig{immortal: all[immortal]}, s.find, last)
	if err != nil {
		s.t.Fatal(err)
	}
	next := s.read("v1/catalog")[0]
	if err := unstructured.SetNestedField(next.Object, ref, "spec", "source", "image", "ref"); err != nil {
		s.t.Fatal(err)
	}
	s.Apply(next)
	s.Eventually(catalog, testkit.Match("served", v1.IsServed))
}

// waitExtension waits until a version is installed.
func (s *suite) waitExtension(extension *unstructured.Unstructured, version string) {
	s.t.Helper()
	s.Eventually(extension, testkit.Match("installed at "+version, func(u *unstructured.Unstructured) bool {
		return v1.IsInstalled(u, version)
	}))
	s.logElapsed("OLM v1 has installed " + version)
}
