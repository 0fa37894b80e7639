// Package v1 is the API of the operators: the kinds Database, a database server with its data, and DBSnapshot, copies of a
// database that are made on time.
//
// It holds the types that users write and read, with the rules that the API server enforces on them. It is not for
// behavior: what follows from a specification is in internal/desired. It depends on the API types of Kubernetes and the
// SDK's conditions alone, so that a Go program may import it to create objects of these kinds.
//
// +kubebuilder:object:generate=true
// +groupName=techoral.com
package v1
