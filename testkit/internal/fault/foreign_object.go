package fault

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// ForeignObject returns an object of another owner with the kind and the name of a child, in a run with this namespace. It
// has none of the child's labels, annotations, finalizers and owner references, and other data if it is a ConfigMap or an
// opaque Secret. A workload runs no pods.
func ForeignObject(c baseline.Child, namespace string) (*unstructured.Unstructured, error) {
	if len(c.Content) == 0 {
		return nil, errors.New("the content of the child is unknown")
	}
	u := &unstructured.Unstructured{}
	text := strings.ReplaceAll(string(c.Content), baseline.NamespacePlaceholder, namespace)
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		return nil, fmt.Errorf("reading the content of %s: %w", c.Name, err)
	}
	metadata := map[string]any{
		"name":        u.GetName(),
		"labels":      map[string]any{"app.kubernetes.io/managed-by": "another-owner"},
		"annotations": map[string]any{state.Mark + "owner": "another-owner"},
	}
	if in := u.GetNamespace(); in != "" {
		metadata["namespace"] = in
	}
	u.Object["metadata"] = metadata
	delete(u.Object, "status")
	delete(u.Object, "immutable")
	removeAssignedFields(u)
	changeData(u)
	return u, stopWorkload(u)
}

// stopWorkload changes a workload so that it runs no pods. They would use claims of the operator, or create others.
func stopWorkload(u *unstructured.Unstructured) error {
	const gate = "another-owner"
	var err error
	switch u.GroupVersionKind().GroupKind().String() {
	case "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps":
		err = unstructured.SetNestedField(u.Object, int64(0), "spec", "replicas")
	case "DaemonSet.apps":
		err = unstructured.SetNestedField(u.Object, gate, "spec", "template", "spec", "nodeSelector", state.Mark+"runs")
	case "Job.batch", "CronJob.batch":
		err = unstructured.SetNestedField(u.Object, true, "spec", "suspend")
	case "Pod":
		err = unstructured.SetNestedSlice(u.Object, []any{map[string]any{"name": state.Mark + gate}}, "spec", "schedulingGates")
	}
	if err != nil {
		return fmt.Errorf("stopping %s: %w", u.GetKind(), err)
	}
	return nil
}

// assignedFields are fields that the API server or a controller assigns, and that must be unique or must not be sent.
var assignedFields = [][]string{
	{"spec", "clusterIP"},
	{"spec", "clusterIPs"},
	{"spec", "healthCheckNodePort"},
	{"spec", "nodeName"},
	{"spec", "volumeName"},
}

func removeAssignedFields(u *unstructured.Unstructured) {
	address, _, _ := unstructured.NestedString(u.Object, "spec", "clusterIP")
	for _, path := range assignedFields {
		if address == "None" && strings.HasPrefix(path[1], "clusterIP") {
			continue // a headless Service
		}
		unstructured.RemoveNestedField(u.Object, path...)
	}
	ports, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "ports")
	list, _ := ports.([]any)
	for _, port := range list {
		if fields, ok := port.(map[string]any); ok {
			delete(fields, "nodePort")
		}
	}
	if u.GroupVersionKind().Group == "batch" && u.GetKind() == "Job" { // both hold the UID of the Job
		unstructured.RemoveNestedField(u.Object, "spec", "selector")
		unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "labels")
	}
}

// changeData replaces data that has no prescribed form.
func changeData(u *unstructured.Unstructured) {
	kind, _, _ := unstructured.NestedString(u.Object, "type")
	switch {
	case u.GroupVersionKind().Group != "":
	case u.GetKind() == "ConfigMap":
		u.Object["data"] = map[string]any{"owner": "another-owner"}
		delete(u.Object, "binaryData")
	case u.GetKind() == "Secret" && (kind == "" || kind == "Opaque"):
		u.Object["data"] = map[string]any{"owner": "YW5vdGhlci1vd25lcg=="}
	}
}
