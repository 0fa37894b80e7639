// Command images builds the image of an operator without Docker, for amd64 and arm64, as a folder in the OCI layout and as
// an archive of it. On request it pushes the image to a registry.
//
//	images build -o FOLDER [-version V] [PROJECT] OPERATOR...
//	images push -o FOLDER -to REGISTRY/PREFIX/ [-version V] [PROJECT] OPERATOR...
//
// PROJECT are the flags -name, -prefix, -source and -licenses, for an operator of another repository. Such an operator is
// compiled in the workspace of its folder, if there is a go.work, and otherwise alone.
//
// An image has two layers with one file each, the certificates and the program. It has no other file and no shell. Builds
// are reproducible: the same source and the same Go give the same image, without times, owners or an order of the build
// machine.
//
// The Dockerfile of an operator builds the same image except for the certificates: they are Debian's there, and Mozilla's as
// in golang.org/x/crypto/x509roots here. A test compares the two.
//
// The package oci does not depend on operators. tools/release uses it for the images of bundles and of the catalog.
//
// This is a module of its own, outside the workspace.
package main
