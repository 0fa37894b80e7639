// Package e2e holds the tests of the SDK that need a real API server: one named test for each property that the SDK
// promises. It is a module of its own, so that the SDK itself depends on no sibling.
package e2e
