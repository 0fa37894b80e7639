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

// Label of a catalog's image, and the folder of the catalog in it.
const (
	configsLabel  = "operators.operatorframework.io.index.configs.v1"
	configsFolder = "/configs"
)

// Repository is the prefix of all image names until a registry is chosen. See [Relocate].
const Repository = "homeostat/"

// BundleImage builds the image of the bundle in a folder from its bundle.Dockerfile: the copied folders, and the labels. It
// is reproducible.
func BundleImage(dir string) (v1.Image, error) {
	recipe, err := oci.ReadRecipe(filepath.Join(dir, "bundle.Dockerfile"))
	if err != nil {
		return nil, fmt.Errorf("%w; make bundle writes it", err)
	}
	return recipe.Make(dir)
}

// CatalogImage builds the image of the catalogs in a folder, which has a file catalog.yaml for each operator in a folder of
// its own, as olm/catalog has. The image contains data only. OLM v1 accepts it unchanged, and OLM v0 with
// spec.grpcPodConfig.extractContent of a CatalogSource. It is as reproducible as a [BundleImage].
func CatalogImage(dir string) (v1.Image, error) {
	if catalogs, err := filepath.Glob(filepath.Join(dir, "*", "catalog.yaml")); err != nil || len(catalogs) == 0 {
		return nil, errors.Join(err, fmt.Errorf("there is no catalog in %s: make catalog writes them, as OPERATOR/catalog.yaml",
			dir))
	}
	return oci.Recipe{
		Folders: map[string]string{".": configsFolder}, Labels: map[string]string{configsLabel: configsFolder},
	}.Make(dir)
}

// Relocate replaces the part before the last slash in the names of the images of all bundles of a catalog. OLM v1 rejects
// names without a registry. The new prefix ends in a slash, like PUSH of make images.
func Relocate(catalog *declcfg.DeclarativeConfig, prefix string) {
	for i := range catalog.Bundles {
		b := &catalog.Bundles[i]
		image := b.Image
		b.Image = prefix + image[strings.LastIndexByte(image, '/')+1:]
		for j := range b.RelatedImages {
			if b.RelatedImages[j].Image == image {
				b.RelatedImages[j].Image = b.Image
			}
		}
	}
}
