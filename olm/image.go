package olm

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// What the image of a catalog says of itself, and where the catalog is in it.
const (
	configsLabel  = "operators.operatorframework.io.index.configs.v1"
	configsFolder = "/configs"
)

// Repository is what the names of all images begin with until a registry is chosen, which takes its place: see [Relocate].
const Repository = "homeostat/"

// BundleImage is the image of the bundle in a folder, as its bundle.Dockerfile says: what it copies, and its labels.
// The same bundle is the same image.
func BundleImage(dir string) (v1.Image, error) {
	recipe, err := oci.ReadRecipe(filepath.Join(dir, "bundle.Dockerfile"))
	if err != nil {
		return nil, fmt.Errorf("%w; make bundle writes it", err)
	}
	return recipe.Make(dir) //nolint:wrapcheck // says what it was doing
}

// CatalogImage is the image of the catalog in a folder, which has a file catalog.yaml for each operator in a folder of its
// own, as olm/catalog has. It is data alone: OLM v1 takes it as it is, and OLM v0 with spec.grpcPodConfig.extractContent of
// a CatalogSource. It is as reproducible as a [BundleImage].
func CatalogImage(dir string) (v1.Image, error) {
	if catalogs, err := filepath.Glob(filepath.Join(dir, "*", "catalog.yaml")); err != nil || len(catalogs) == 0 {
		return nil, errors.Join(err, fmt.Errorf("there is no catalog in %s: make catalog writes them, as OPERATOR/catalog.yaml",
			dir))
	}
	//nolint:wrapcheck // says what it was doing
	return oci.Recipe{
		Folders: map[string]string{".": configsFolder}, Labels: map[string]string{configsLabel: configsFolder},
	}.Make(dir)
}

// Relocate puts a registry, and what follows it, in the place of [Repository] in the names of the images of all bundles of a
// catalog. OLM v1 refuses names without a registry. The prefix ends in a slash, like PUSH of make images.
func Relocate(catalog *declcfg.DeclarativeConfig, prefix string) {
	for i := range catalog.Bundles {
		b := &catalog.Bundles[i]
		image := b.Image
		if rest, ok := strings.CutPrefix(image, Repository); ok {
			b.Image = prefix + rest
		}
		for j := range b.RelatedImages {
			if b.RelatedImages[j].Image == image {
				b.RelatedImages[j].Image = b.Image
			}
		}
	}
}
