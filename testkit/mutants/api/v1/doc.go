// Package v1 has the custom resources of the operators in the mutation benchmark, one kind for each operator, with the
// fields that the operator needs.
//
// It is not an example of API design: the operators have no purpose but the benchmark.
//
// +kubebuilder:object:generate=true
// +groupName=mutants.homeostat.dev
package v1
