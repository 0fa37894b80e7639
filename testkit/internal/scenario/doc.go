// Package scenario reads and executes a YAML file of the steps that a test takes as a user, for people who do not write
// Go.
//
//	crds: [crd.yaml]                  # installed before anything else
//	setup: [config.yaml]              # applied before the operator starts
//	steps:                            # after each the operator comes to rest
//	- name: create
//	  apply: sample.yaml
//	  wait: {condition: Ready}        # of the object that the step is about
//	- name: scale
//	  patch: {kind: Database, name: orders, merge: {spec: {replicas: 3}}}
//	  wait: {kind: StatefulSet, name: orders, field: status.replicas, value: 3, timeout: 1m}
//	- name: delete
//	  delete: {kind: Database, name: orders}
//	  wait: {exists: false}
//
// Each of crds, setup and apply takes a file, an object, a folder, or a list of these. Paths are relative to the
// scenario's folder. A kind needs an apiVersion only if it is neither one of the scenario's objects nor a kind of
// Kubernetes itself.
//
// Each run has a namespace of its own, and further ones that the scenario names:
//
//	namespaces: [team-a]              # {namespace} and {namespace:team-a} stand for the real names
//
// An object or a target is in the further namespace that it names, or else in that of its step, or else in the first one.
// The field never lists states, in the form of wait, that must not exist at any time.
//
// The package has no knowledge of operators, faults and verdicts, and it starts no cluster.
package scenario
