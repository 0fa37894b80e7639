// Package olm renders the catalog from which the Operator Lifecycle Manager installs and upgrades the operators.
//
// A template per operator, in the format olm.semver, names its bundles and how mature each of them is; which version
// replaces which follows from their numbers. [Render] makes a file-based catalog of it in one of two flavours: [Published]
// names the images of the bundles and says of each what a console shows, and [Inline] has all of each bundle and names no
// image. The second is for tests: OLM v0 installs from it without a registry of images. It is never published.
//
// [BundleImage] and [CatalogImage] make the images that a registry has, without a program that builds images.
package olm
