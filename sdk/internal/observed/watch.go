package observed

import (
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Watch starts the event sources: the primary kind by its own events, each owned kind mapped to its parent.
func (v *Cache) Watch(c controller.Controller) error {
	filter := v.changePredicate()
	byParent := handler.EnqueueRequestsFromMapFunc(v.parentRequests)
	for _, s := range v.scopes {
		err := c.Watch(source.Kind[client.Object](s.parents, v.primary, &handler.EnqueueRequestForObject{}, filter))
		if err != nil {
			return fmt.Errorf("watching %s: %w", v.Primary.Kind, err)
		}
	}
	byInstance := handler.EnqueueRequestsFromMapFunc(v.instanceRequests)
	for i, gvk := range v.others() {
		kind, mapping := &ownedKind{cache: v, gvk: gvk}, byParent
		if slices.Contains(v.Observed, gvk) {
			mapping = byInstance
		}
		for _, s := range v.scopes {
			kind.sources = append(kind.sources, source.Kind[client.Object](s.children, v.Watched[i], mapping, filter))
		}
		if err := c.Watch(kind); err != nil {
			return fmt.Errorf("watching kind %s: %w", gvk.Kind, err)
		}
	}
	return nil
}
