// Package convert shows how an operator on kubebuilder's scaffold comes to the SDK one package at a time. The story is in
// docs/from-kubebuilder.md; the tests here run every form of the operator and measure what each step gains.
//
//	api      the kind, which all forms share
//	before   kubebuilder style: CreateOrUpdate, SetStatusCondition, AddFinalizer
//	step1    its children through sdk/apply
//	step2    its status through sdk/conditions
//	step3    its finalizer through sdk/finalizer
//	after    the whole as an sdk.Operator
//	desired  what the children look like, from step1 on
//	cmd      the first and the last form as programs
package convert
