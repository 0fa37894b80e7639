package desired

import (
	"strings"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// ReadinessCache holds the readiness of the children of one object, by UID.
type ReadinessCache map[types.UID]readiness

// readiness is the readiness of one version of a child.
type readiness struct {
	version       string
	ready, failed bool
	message       string
}

// kstatusReadiness returns the readiness of a child by the rules of kstatus, as kubectl, Argo CD and Flux do. It is cached
// by version, because most reconciles read unchanged children.
func (s *Child) kstatusReadiness(o client.Object) (bool, string) {
	if _, partial := o.(*metav1.PartialObjectMetadata); partial || !hasReadiness(s.GVK.GroupKind().String()) {
		return true, ""
	}
	known, ok := s.readinessCache[o.GetUID()]
	if !ok || known.version == "" || known.version != o.GetResourceVersion() {
		known = readinessOf(o, s.GVK)
		if known.ready || s.GVK.Kind != "Pod" { // the result for a pending pod depends on the time
			s.readinessCache[o.GetUID()] = known
		}
	}
	s.Failed = known.failed
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
		u.SetGroupVersionKind(gvk) // typed objects in a cache have none; unstructured objects have one, and are shared
	}
	result, err := kstatus.Compute(u)
	if err != nil {
		r.message = err.Error()
		return r
	}
	r.ready = result.Status == kstatus.CurrentStatus
	r.failed = result.Status == kstatus.FailedStatus
	r.message = plainMessage(result.Message)
	return r
}

// plainMessage replaces the messages of kstatus that name internal fields.
func plainMessage(message string) string {
	if strings.Contains(message, "latest observed generation") {
		return "the last change is not processed yet"
	}
	if n, ok := strings.CutPrefix(message, "Pending termination: "); ok {
		return "pods to be stopped: " + n
	}
	return message
}

// hasReadiness reports whether kstatus has a rule for the kind. Objects of other kinds are ready when they exist, and the
// most common children cost no conversion.
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
