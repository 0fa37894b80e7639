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

func TestMain(m *testing.M) {
	if os.Getenv(operatorVariable) != "" {
		program.Main(mailbox.WithWebhooks)
	}
	testkit.Main(m, testkit.Env{
		CRDs: "config/crd", Webhooks: "config/webhook/manifests.yaml", AddToScheme: mailbox.AddToScheme,
		Conversion: http.HandlerFunc(mailbox.Convert),
	})
}
