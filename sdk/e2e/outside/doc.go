// Package outside tests that an operator's author needs nothing but `import`: a module that has never heard of this
// repository's go.work builds, vets and tests an operator with sdk and testkit. It is the operator under
// testdata/gadget, a whole one: copy it to start your own.
package outside
