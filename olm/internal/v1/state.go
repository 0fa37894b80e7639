package v1

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Condition returns a condition of an object, or nil.
func Condition(u *unstructured.Unstructured, kind string) *metav1.Condition {
	var typed struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &typed); err != nil {
		return nil
	}
	return apimeta.FindStatusCondition(typed.Status.Conditions, kind)
}

// IsServed reports whether OLM serves the current content of a ClusterCatalog.
func IsServed(catalog *unstructured.Unstructured) bool {
	serving, progressing := Condition(catalog, "Serving"), Condition(catalog, "Progressing")
	current := catalog.GetGeneration()
	return serving != nil && serving.Status == metav1.ConditionTrue && serving.ObservedGeneration == current &&
		progressing != nil && progressing.Reason == "Succeeded" && progressing.ObservedGeneration == current
}

// Installed returns the installed version, from the status of a ClusterExtension, or "".
func Installed(extension *unstructured.Unstructured) string {
	version, _, _ := unstructured.NestedString(extension.Object, "status", "install", "bundle", "version")
	return version
}

// IsInstalled reports whether a version is installed, and OLM has nothing left to do.
func IsInstalled(extension *unstructured.Unstructured, version string) bool {
	installed, progressing := Condition(extension, "Installed"), Condition(extension, "Progressing")
	return Installed(extension) == version && installed != nil && installed.Status == metav1.ConditionTrue &&
		progressing != nil && progressing.Status == metav1.ConditionTrue && progressing.Reason == "Succeeded"
}
