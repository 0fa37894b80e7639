// Command mailbox runs the example operator with its webhooks.
package main

import (
	"net/http"

	"github.com/homeostat-dev/homeostat/sdk/e2e/mailbox"
	"github.com/homeostat-dev/homeostat/sdk/program"
)

func main() {
	op := *mailbox.WithWebhooks
	op.Conversion = http.HandlerFunc(mailbox.Convert)
	program.Main(&op)
}
