package explore

import (
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// isVersioned reports whether the request contains a resourceVersion (optimistic concurrency).
func isVersioned(c *intercept.Call) bool {
	return c.Writes() && c.Verb != "create" && metadataOf(c.Sent).ResourceVersion != ""
}
