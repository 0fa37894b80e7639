package sdk

import (
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// wellKnown reads the readiness of a child as kstatus, and with it kubectl, Argo CD and Flux, would.
func (s *step) wellKnown(o client.Object) (bool, string) {
	if _, partial := o.(*metav1.PartialObjectMetadata); partial || !hasReadiness(s.gvk.GroupKind().String()) {
		return true, ""
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		o = object.Shallow(o)
		o.SetManagedFields(nil) // which are most of the work, and say nothing of this
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return false, err.Error()
		}
		u = &unstructured.Unstructured{Object: fields}
		u.SetGroupVersionKind(s.gvk) // typed objects in a cache have none; unstructured ones do, and are shared
	}
	result, err := status.Compute(u)
	if err != nil {
		return false, err.Error()
	}
	s.failed = result.Status == status.FailedStatus
	return result.Status == status.CurrentStatus, result.Message
}

// hasReadiness tells the kinds for which existing is all there is to be ready, so that the most common children cost
// no conversion in every pass.
func hasReadiness(groupKind string) bool {
	switch groupKind {
	case "ConfigMap", "Secret", "ServiceAccount", "CronJob.batch",
		"Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io",
		"ClusterRole.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io":
		return false
	default:
		return true
	}
}
