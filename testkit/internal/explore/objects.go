package explore

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// This file determines the objects of a run, their canonical names, and the parts of them that are compared.

// CatchUp waits until the history shows the current objects. On a busy machine the API server ends the watch of a slow
// client, and the next watch may begin half a minute later.
func (s *Session) CatchUp() error {
	for began := time.Now(); s.run.isBehind(); s.pollDelay() {
		if time.Since(began) > maxTimeouts*s.x.Patience {
			return errBehind
		}
	}
	return s.err()
}

func kindOf(c history.Change) intercept.Kind {
	return intercept.Kind{Group: c.Resource.Group, Resource: c.Resource.Resource}
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
		if c.UID != "" && c.Writes() && c.Reached && c.Code < http.StatusMultipleChoices {
			all[types.UID(c.UID)] = true
		}
	}
	return all
}
