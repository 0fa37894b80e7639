package explore

import (
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

func groupResourceOf(c history.Change) intercept.GroupResource {
	return intercept.GroupResource{Group: c.Resource.Group, Resource: c.Resource.Resource}
}

// created returns the UIDs of objects that the calls created. An apply or a patch may create an object, too.
func created(calls []intercept.Call) map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, c := range calls {
		if c.UID != "" && c.Subresource == "" && c.Code == http.StatusCreated {
			all[types.UID(c.UID)] = true
		}
	}
	return all
}

// written returns the UIDs of objects that the calls wrote.
func written(calls []intercept.Call) map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, c := range calls {
		if c.UID != "" && c.IsWrite() && c.Reached && c.Code < http.StatusMultipleChoices {
			all[types.UID(c.UID)] = true
		}
	}
	return all
}
