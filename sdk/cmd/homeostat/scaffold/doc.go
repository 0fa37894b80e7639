// Package scaffold writes the module of a new operator, as people here would write it: types, CustomResourceDefinition, the
// operator, tests, roles, manifests, a sample and a Dockerfile.
//
// The files are templates, beside this one: those in templates/operator are written always, those in templates/inside for an
// operator of this repository, those in templates/outside for one that is a repository of its own. What controller-gen
// generates is a template too, so that nothing but the go command is needed; tests in sdk/e2e/scaffold hold it to
// what controller-gen would write.
//
// It is not for operators that exist: it never changes a file of theirs.
package scaffold
