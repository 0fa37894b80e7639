package retry

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NotInstalled is the reason of a missing kind, for messages.
const NotInstalled = "the API server does not know it: install its CRD"

// IsUnknownKind reports whether a request failed because the API server does not know the kind.
func IsUnknownKind(err error) bool {
	return meta.IsNoMatchError(err) ||
		apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

const reasonKindNotInstalled = "KindNotInstalled"

// KindNotInstalled returns the error for an object of a missing kind.
func KindNotInstalled(gvk schema.GroupVersionKind, why string) error {
	return Wait(reasonKindNotInstalled, "kind %s of %s is missing: %s", gvk.Kind, gvk.GroupVersion(), why)
}

// IsPolled reports whether the end of a wait with this reason may cause no event: the operator may not be allowed to watch
// namespaces or definitions of kinds.
func IsPolled(reason string) bool {
	switch reason {
	case reasonKindNotInstalled, reasonNamespaceNotFound, reasonNamespaceTerminating:
		return true
	default:
		return false
	}
}
