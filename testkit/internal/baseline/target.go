package baseline

import (
	"fmt"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// Target identifies one request of the operator across runs.
type Target struct {
	Verb        string
	Kind        intercept.GroupResource
	Subresource string
	Object      string // canonical group of the object's name; "" for a collection
	Number      int    // number of the request in its group, from 1
	Step        int    // step of the scenario, from 1; 0 is the time before, and a number beyond the last step the deletion

	Effective bool // the request changed something
	Creates   bool // the request created an object
	Versioned bool // the request fails if the object has changed meanwhile
	Writes    bool
}

// ID returns an identifier that is the same in every run.
func (t Target) ID() string { return fmt.Sprintf("%s#%d", t.Group(), t.Number) }

// Group returns the part of the identifier that identical requests share.
func (t Target) Group() string {
	kind := t.Kind.Resource
	if t.Subresource != "" {
		kind += "." + t.Subresource
	}
	return strings.TrimSuffix(t.Verb+"-"+kind+"-"+t.Object, "-")
}

// String returns a text like "the 2nd create of pods web".
func (t Target) String() string {
	kind := t.Kind.String()
	if t.Subresource != "" {
		kind += "/" + t.Subresource
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s of %s %s", ordinal(t.Number), t.Verb, kind, t.Object))
}

func ordinal(n int) string {
	suffix := "th"
	switch {
	case n%100/10 == 1:
	case n%10 == 1:
		suffix = "st"
	case n%10 == 2:
		suffix = "nd"
	case n%10 == 3:
		suffix = "rd"
	}
	return fmt.Sprintf("%d%s", n, suffix)
}
