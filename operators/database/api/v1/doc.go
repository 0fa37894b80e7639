// Package v1 has the API types of the operators: Database, a database server with its data, and DBSnapshot, scheduled copies
// of a database.
//
// The markers define the validation rules of the API server. The package has no behavior: internal/database/desired and
// internal/dbsnapshot/desired derive objects from a specification. It depends on the API types of Kubernetes and on the
// SDK's conditions alone, so a Go program can import it to create objects of these kinds.
//
// +kubebuilder:object:generate=true
// +groupName=techoral.com
package v1
