// Package scaffold writes the module of a new operator in the style of this repository: types, CustomResourceDefinition, the
// operator, tests, roles, manifests, a sample and a Dockerfile.
//
// The templates of the files are beside this file. Those in templates/operator, templates/api and templates/kind are always
// written, those in templates/inside for an operator of this repository, and those in templates/outside for an operator in a
// repository of its own. The output of controller-gen is a template too, so that only the go command is needed. Tests in
// sdk/e2e/scaffold compare it with the real output of controller-gen.
//
// An operator outside of this repository is built with a checkout until a version is released. No committed file names its
// folder: the Makefile writes a workspace (docs/adr/0120).
//
// To an existing program it adds kinds, versions and webhooks, those in the other folders. In files that exist it inserts
// lines where it finds their place, or it writes nothing (docs/adr/0125, docs/adr/0128).
package scaffold
