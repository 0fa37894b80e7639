package baseline

import (
	"fmt"
	"strconv"
	"strings"
)

// Exchange identifies one request of the operator to an external service across runs.
type Exchange struct {
	Service int // number of the service, from 1
	Method  string
	Path    string // canonical
	Number  int    // number of the request in its group, from 1
	Step    int    // as in [Target]
}

// ID returns an identifier that is the same in every run. It has no slash, so that it can be a part of the name of a
// subtest.
func (e Exchange) ID() string { return fmt.Sprintf("%s#%d", e.Group(), e.Number) }

// Group returns the part of the identifier that identical requests share.
func (e Exchange) Group() string {
	path := strings.ReplaceAll(strings.Trim(e.Path, "/"), "/", ".")
	return strings.Trim(fmt.Sprintf("external%s-%s-%s", e.service(), strings.ToLower(e.Method), path), "-")
}

// service returns the number of a service that is not the first.
func (e Exchange) service() string {
	if e.Service == 1 {
		return ""
	}
	return strconv.Itoa(e.Service)
}

// Name returns the name of the service.
func (e Exchange) Name() string { return strings.TrimSpace("external service " + e.service()) }

// String returns a text like "the 1st POST /teams of the external service".
func (e Exchange) String() string {
	return fmt.Sprintf("%s %s %s to the %s", ordinal(e.Number), e.Method, e.Path, e.Name())
}
