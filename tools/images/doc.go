// Command images builds the image of an operator without Docker: for amd64 and arm64, as a folder in the layout of OCI and
// as one archive of that, and pushes it to a registry if it is asked to.
//
//	images build -o FOLDER [-version V] OPERATOR...
//	images push -o FOLDER -to REGISTRY/PREFIX/ [-version V] OPERATOR...
//
// An image has two layers, the certificates and the program, which are one file each. It has no other file and no shell. The
// same source and the same Go make the same image: nothing in it has a time, an owner or an order that comes from the
// machine that built it.
//
// The Dockerfile of an operator makes the same image, but for the certificates: those are Debian's there, and Mozilla's
// as golang.org/x/crypto/x509roots has them here. A test holds the two to each other.
//
// The package oci, which knows no operator, is also what tools/release makes the images of bundles and of the catalog with.
//
// This is a module of its own, outside the workspace.
package main
