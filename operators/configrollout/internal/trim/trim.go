// Package trim removes from the objects of the cache what the operator does not use. The memory for one object is limited
// then, and does not depend on its size.
package trim

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// Object trims a workload, or the metadata of a ConfigMap, a Secret or a Namespace. It is a transform of a cache.
func Object(o any) (any, error) {
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
		metadata(o)
	case client.Object:
		workload.Trim(o)
	}
	return o, nil
}

func metadata(o *metav1.PartialObjectMetadata) {
	trimmed := metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
	if value, ok := o.Labels[annotation.DefaultLabel]; ok {
		trimmed.Labels = map[string]string{annotation.DefaultLabel: value}
	}
	o.ObjectMeta = trimmed
}
