package manual_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// catalog.Dockerfile builds the same image as a release pushes.
func TestCatalogDockerfile(t *testing.T) {
	t.Parallel()
	want, err := olm.CatalogImage(root + "/olm/catalog")
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := oci.ReadRecipe(root + "/olm/catalog.Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	got, err := recipe.Make(root + "/olm")
	if err != nil {
		t.Fatal(err)
	}
	is, err := got.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if should, err := want.Digest(); err != nil || is != should {
		t.Errorf("it makes %s, a release %s, %v", is, should, err)
	}
}
