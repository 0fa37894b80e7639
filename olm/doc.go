// Package olm renders the catalog that the Operator Lifecycle Manager installs and upgrades the operators from.
//
// Each operator has a template in the format olm.semver. It names the bundles and the maturity of each. The upgrade graph
// follows from the version numbers. [Render] renders a file-based catalog in one of two flavours. [Published] contains the
// images of the bundles and the texts of a console. [Inline] contains all of each bundle and no image. The second flavour is
// for tests, because OLM v0 installs from it without a registry of images. It is never published.
//
// [BundleImage] and [CatalogImage] build the images for a registry, without a container build tool.
package olm
