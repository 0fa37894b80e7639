// Package v1 holds the custom resources of the operators in the mutation benchmark, one kind for each operator and in
// each nothing but what that operator needs.
//
// It is not an example of API design: nobody runs these operators for what they do.
//
// +kubebuilder:object:generate=true
// +groupName=mutants.homeostat.dev
package v1
