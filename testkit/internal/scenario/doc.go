// Package scenario reads what happens to an operator from a YAML file, for people who do not write Go, and does it.
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
// Where crds, setup and apply take a file, they take an object, a folder, or a list of these as well. Paths are relative
// to the scenario's folder. A kind needs an apiVersion only if it is neither one of the scenario's objects nor one of
// Kubernetes itself. Each run has one namespace: objects go there, whatever namespace they name.
//
// It knows nothing of operators, faults and verdicts, and it starts no cluster.
package scenario
