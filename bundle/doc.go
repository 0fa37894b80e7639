// Package bundle renders the bundle by which the Operator Lifecycle Manager installs an operator, in the format registry+v1
// that OLM v0 and v1 share, and holds bundles to all rules that are known without a cluster.
//
// A bundle says once more what the folder config of an operator says already: the definitions, the rights, how the program
// is started, the samples. So all of that is rendered. What config does not say is in config/manifests, in the layout of
// operator-sdk: the base of the ClusterServiceVersion with the texts for people, and the icon. What a user sees of a field
// follows from the schema in the definition; markers in the Go types, in the grammar of operator-sdk, say what does not:
//
//	// +operator-sdk:csv:customresourcedefinitions:displayName="Database",resources={{StatefulSet,v1,""},{Service,v1,""}}
//	type Database struct
//
//	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Members"
//	Replicas *int32 `json:"replicas,omitempty"`
//
// [Render] reads the folder of an operator and returns its [Bundle], [Bundle.Write] stores it, and [Check] finds what is
// wrong with one that is stored. The same folder makes the same files: nothing in them has a time.
//
// What OLM does not install has no place in a bundle: the namespace, and policies of the network and of admission. Rights
// within the operator's namespace become rights in all namespaces, because OLM makes them so for an operator that watches
// all namespaces.
package bundle
