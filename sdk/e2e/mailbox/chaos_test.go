package mailbox_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/sdk/e2e/mailbox"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// The operator and its webhooks run in one process: both are killed, restarted and down. A user waits for the webhooks.
func TestFaults(t *testing.T) {
	chaos.Sweep(t, mailbox.WithWebhooks, chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) { k.Apply(newMailbox("a@example.com")) }},
		{Name: "grow", Do: func(k *testkit.K) {
			m := newMailbox("a@example.com")
			m.Spec.QuotaMiB = 200
			k.Apply(m)
		}},
	}, chaos.Faults{"crash-before", "crash-after", "crash-deleted", "down", "failover", "conflict"})
}
