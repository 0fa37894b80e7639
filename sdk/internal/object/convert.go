package object

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CopyAs returns a copy of an observed object, or an empty object if it is nil, as an object of like's type. If only the
// metadata was observed, the copy has that metadata alone.
func CopyAs[C client.Object](o client.Object, like C) C {
	if o == nil {
		return Empty(like)
	}
	if partial, ok := o.(*metav1.PartialObjectMetadata); ok {
		return WithMetadata(like, partial)
	}
	c, _ := Copy(o).(C) // a cache holds objects of the applied type
	return c
}
