package e2e_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/testkit"
)

// OLM installs all operators from the published catalog with the unchanged manifests. It runs a pod with the image of the
// catalog, and unpacks the image of each bundle in a Job. The operators run with OLM's Deployments and permissions, from the
// first version to the latest. Objects survive the upgrade, and stay when the operators are uninstalled.
func TestLife(t *testing.T) {
	t.Parallel()
	const live = 50
	s := newSuite(t)
	previous, current := s.versions.Previous, s.versions.Current
	s.serve(catalogOf(t, previous, olm.Published, nil))
	source := &v1alpha1.CatalogSource{}
	source.Name = "homeostat"
	source.Namespace = v0.Namespace
	s.apply("catalog")
	s.k.Eventually(source, testkit.Match("connected", v0.IsConnected))
	s.subscribe()
	s.waitInstalled(previous)
	objects := s.populate(live)
	before := s.waitIdle(previous, live)
	if len(before) < len(objects) {
		t.Fatalf("%d objects have %d children", len(objects), len(before))
	}

	s.serve(catalogOf(t, current, olm.Published, nil))
	s.k.Update(source, func() { source.Spec.Image = "homeostat/catalog:v" + current })
	s.waitInstalled(current)
	s.waitReady(objects)
	after := s.waitIdle(current, live)
	fixture.IgnoreUpgradeChanges(before, after)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the upgrade changed what belongs to objects, -was +is:\n%s", diff)
	}
	for name := range s.projects {
		s.checkPermissions(s.csv(name, current))
		objects = append(objects, s.create(name, "late"))
	}
	s.waitReady(objects)
	s.logElapsed("the new versions work")

	s.waitIdle(current, live+1)
	for _, o := range objects {
		s.k.Get(o)
	}
	s.uninstall(current, objects)
}
