package oracle

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// BeforeLateWrite returns a function that selects the states of an object before its first late write. Such a write may
// restore a former status, and its repair is one more change: a transition time moves twice.
func BeforeLateWrite(calls []intercept.Call) func(history.Change) bool {
	first := map[types.UID]string{} // version of the object
	for _, c := range calls {
		if uid := types.UID(c.UID); c.Late && c.Version != "" && first[uid] == "" {
			first[uid] = c.Version
		}
	}
	return func(c history.Change) bool {
		late, ok := first[c.Object.GetUID()]
		return !ok || history.Older(c.Object.GetResourceVersion(), late)
	}
}
