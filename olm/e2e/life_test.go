package e2e_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/homeostat-dev/homeostat/olm"
	stages "github.com/homeostat-dev/homeostat/olm/internal/stage"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
)

// All operators from one catalog, as it is published and as the manifests here install it: OLM runs a pod with the image of
// the catalog and unpacks the image of each bundle in a Job. The operators run as OLM starts them and with the rights that
// it gives them, from the first version to the last, with objects that live through the upgrade and stay when the operators
// go.
func TestLife(t *testing.T) {
	t.Parallel()
	const live = 50
	s := newStage(t)
	previous, current := s.versions.Previous, s.versions.Current
	s.serve(catalogOf(t, previous, olm.Published, nil))
	source := &v1alpha1.CatalogSource{}
	source.Name, source.Namespace = "homeostat", v0.Namespace
	s.apply("catalog")
	ready(s.k, source)
	s.subscribe()
	s.settle(previous)
	objects := s.populate(live)
	before := s.rest(previous, live)
	if len(before) < len(objects) {
		t.Fatalf("%d objects have %d children", len(objects), len(before))
	}

	s.serve(catalogOf(t, current, olm.Published, nil))
	s.k.Update(source, func() { source.Spec.Image = "homeostat/catalog:v" + current })
	s.settle(current)
	s.ready(objects)
	after := s.rest(current, live)
	stages.Upgraded(before, after)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the upgrade changed what belongs to objects, -was +is:\n%s", diff)
	}
	for name := range s.projects {
		s.hasRights(s.csv(name, current))
		objects = append(objects, s.create(name, "late"))
	}
	s.ready(objects)
	s.did("the new versions work")

	s.rest(current, live+1)
	for _, o := range objects {
		s.k.Get(o)
	}
	s.uninstall(current, objects)
}
