package sdk

import (
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// readiness is what was read of one version of a child.
type readiness struct {
	version       string
	ready, failed bool
	message       string
}

// wellKnown reads the readiness of a child as kstatus, and with it kubectl, Argo CD and Flux, would. What was read of a
// version is remembered, because most passes look at children that have not changed.
func (s *step) wellKnown(o client.Object) (bool, string) {
	if _, partial := o.(*metav1.PartialObjectMetadata); partial || !hasReadiness(s.gvk.GroupKind().String()) {
		return true, ""
	}
	known, ok := s.known[o.GetUID()]
	if !ok || known.version == "" || known.version != o.GetResourceVersion() {
		known = readinessOf(o, s.gvk)
		if known.ready || s.gvk.Kind != "Pod" { // which has some time to be scheduled, and not to be changed
			s.known[o.GetUID()] = known
		}
	}
	s.failed = known.failed
	return known.ready, known.message
}

func readinessOf(o client.Object, gvk schema.GroupVersionKind) readiness {
	r := readiness{version: o.GetResourceVersion()}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object.WithoutTemplates(o))
		if err != nil {
			r.message = err.Error()
			return r
		}
		u = &unstructured.Unstructured{Object: fields}
		u.SetGroupVersionKind(gvk) // typed objects in a cache have none; unstructured ones do, and are shared
	}
	result, err := status.Compute(u)
	if err != nil {
		r.message = err.Error()
		return r
	}
	r.ready, r.failed, r.message = result.Status == status.CurrentStatus, result.Status == status.FailedStatus, result.Message
	return r
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
