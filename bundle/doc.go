// Package bundle renders the bundle that the Operator Lifecycle Manager installs an operator from, in the format
// registry+v1, which OLM v0 and v1 share. It also checks bundles against all rules that can be checked without a cluster.
//
// Most of a bundle repeats an operator's folder config: the definitions, the permissions, the Deployment, the samples. These
// parts are rendered. The rest is in config/manifests, in the layout of operator-sdk: the base of the ClusterServiceVersion
// with its texts, and the icon. The description of a field follows from the schema in the definition. Markers in the Go
// types, in the grammar of operator-sdk, add to it:
//
//	// +operator-sdk:csv:customresourcedefinitions:displayName="Database",resources={{StatefulSet,v1,""},{Service,v1,""}}
//	type Database struct
//
//	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Members"
//	Replicas *int32 `json:"replicas,omitempty"`
//
// An operator that is a function in Python has no types. The resources of its objects are the kinds that operator.yaml owns.
//
// [Render] reads the folder of an operator and returns its [Bundle], [Bundle.Write] stores it, and [Check] returns the
// problems of a stored bundle. Rendering is reproducible: the files contain no time.
//
// The objects of config/webhook become the webhooks of the ClusterServiceVersion, as does the conversion of a definition.
// OLM makes the Service and the certificate.
//
// The folder config/olm, if there is one, takes the place of config/default. An operator whose webhooks are not necessary
// can have a bundle without webhooks, which also the versions of OLM without support for them install.
//
// A bundle leaves out kinds that OLM does not install: the namespace, network policies and admission policies. Permissions
// within the operator's namespace become permissions in all namespaces, because OLM does that for an operator that watches
// all namespaces.
package bundle
