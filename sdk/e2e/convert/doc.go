// Package convert converts an operator on kubebuilder's scaffold to the SDK, one package at a time. The guide is
// docs/from-kubebuilder.md; the tests here run every form of the operator and measure the benefit of each step.
//
//	api      the kind, shared by all forms
//	before   kubebuilder style: CreateOrUpdate, SetStatusCondition, AddFinalizer
//	step1    its children through sdk/apply
//	step2    its status through sdk/conditions
//	step3    its finalizer through sdk/finalizer
//	after    the whole as an sdk.Operator
//	desired  the desired children, from step1 on
//	cmd      the first and the last form as programs
package convert
