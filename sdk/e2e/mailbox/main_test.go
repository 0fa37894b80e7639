package mailbox_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/homeostat-dev/homeostat/sdk/e2e/mailbox"
	"github.com/homeostat-dev/homeostat/sdk/program"
	"github.com/homeostat-dev/homeostat/testkit"
)

// operatorVariable makes this test binary run the operator as a program.
const operatorVariable = "MAILBOX_OPERATOR"

// withConversion is the value of operatorVariable for a program that converts objects, too.
const withConversion = "conversion"

func TestMain(m *testing.M) {
	switch os.Getenv(operatorVariable) {
	case "1":
		program.Main(mailbox.WithWebhooks)
	case withConversion:
		op := *mailbox.WithWebhooks
		op.Conversion = http.HandlerFunc(mailbox.Convert)
		program.Main(&op)
	}
	testkit.Main(m, testkit.Env{
		CRDs: "config/crd", Webhooks: "config/webhook/manifests.yaml", AddToScheme: mailbox.AddToScheme,
		Conversion: http.HandlerFunc(mailbox.Convert),
	})
}
