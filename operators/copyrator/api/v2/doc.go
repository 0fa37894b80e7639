// Package v2 is the second version of the API of the operator. Its kind CopyratorRule has a spec, one form for each field
// and Kubernetes' label selectors. Its status is that of package v1.
//
// Objects are stored in version v1. A webhook converts them.
//
// +kubebuilder:object:generate=true
// +groupName=flant.com
package v2
