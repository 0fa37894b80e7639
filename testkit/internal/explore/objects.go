package explore

import (
	"encoding/json"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

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

// bornGarbage returns the UIDs of objects whose owners had all been deleted before they were created. The garbage collector
// deletes the children of a deleted object within milliseconds. Watch events of two kinds have no order: if that of the
// child comes before that of the owner, the operator creates the child again, and the garbage collector deletes it as well.
// The order is random, and does not depend on a fault.
func bornGarbage(changes []history.Change) map[types.UID]bool {
	deletedAt, garbage := map[types.UID]string{}, map[types.UID]bool{}
	for _, c := range changes {
		if c.Type == watch.Deleted {
			deletedAt[c.Object.GetUID()] = c.Object.GetResourceVersion()
		}
	}
	for _, c := range changes { // once more, because events of different kinds may come in any order
		owners := c.Object.GetOwnerReferences()
		if c.Type != watch.Added || len(owners) == 0 {
			continue
		}
		garbage[c.Object.GetUID()] = !slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool {
			version, deleted := deletedAt[owner.UID]
			return !deleted || !history.Older(version, c.Object.GetResourceVersion())
		})
	}
	return garbage
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

// isUserEvent reports whether the user caused a watch event: the event has the version of one of the user's writes, or the
// user deleted the object.
func (v *view) isUserEvent(f intercept.Frame) bool {
	return slices.ContainsFunc(v.user.Calls(), func(c intercept.Call) bool {
		succeeded := c.IsWrite() && c.Reached && c.Code < http.StatusMultipleChoices
		if !succeeded || intercept.GroupResourceOf(c.Request) != f.Kind {
			return false
		}
		if c.Version != "" { // also that of an object that is deleted later, because it has a finalizer
			return c.Version == f.Version
		}
		return c.Verb == "delete" && f.Type == string(watch.Deleted) && deletedUID(c) == f.UID
	})
}

// deletedUID returns the UID of the object that the call deleted, or "" if the response lacks it.
func deletedUID(c intercept.Call) string {
	var status metav1.Status
	if json.Unmarshal(c.Received, &status) != nil || status.Details == nil {
		return ""
	}
	return string(status.Details.UID)
}
