package mailbox_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/homeostat-dev/homeostat/sdk/e2e/mailbox"
	"github.com/homeostat-dev/homeostat/sdk/webhook"
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
	}, chaos.Faults{"crash-before", "crash-after", "crash-deleted", "down", "failover", "conflict", chaos.Webhook})
}

// marker returns an operator that writes an annotation into each mailbox, with webhooks that admit all. A careless one takes
// an error of a webhook for success.
func marker(isCareless bool) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		admit := admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
			return admission.Allowed("")
		})
		for _, path := range []func(schema.GroupVersionKind) string{webhook.ValidationPath, webhook.DefaultPath} {
			gvk := mailbox.GroupVersion.WithKind("Mailbox")
			mgr.GetWebhookServer().Register(path(gvk), &admission.Webhook{Handler: admit})
		}
		c := mgr.GetClient()
		return ctrl.NewControllerManagedBy(mgr).For(&mailbox.Mailbox{}).Complete(reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				m := &mailbox.Mailbox{}
				if err := c.Get(ctx, req.NamespacedName, m); err != nil || m.Annotations["marked"] != "" {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				m.Annotations = map[string]string{"marked": "yes"}
				err := c.Update(ctx, m)
				if isCareless && err != nil && strings.Contains(err.Error(), "failed calling webhook") {
					err = nil
				}
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}))
	}
}

// An operator that takes an error of a webhook for success is found. The sweeps run in a child process, and the test checks
// their output.
func TestSweepFindsIgnoredRefusal(t *testing.T) {
	t.Parallel()
	const variable = "MAILBOX_MARKER"
	create := chaos.Scenario{{Name: "create", Do: func(k *testkit.K) { k.Apply(newMailbox("a@example.com")) }}}
	if kind := os.Getenv(variable); kind != "" {
		var options []chaos.Option
		if kind == "careless" {
			options = append(options, chaos.Timeout(8*time.Second)) // it does not converge
		}
		chaos.Sweep(t, chaos.FromSetup(marker(kind == "careless")), create, chaos.Faults{chaos.Webhook}, options...)
		return
	}
	const refused, slow = "TestSweepFindsIgnoredRefusal/webhook-refused/update-mailboxes-a#1",
		"TestSweepFindsIgnoredRefusal/webhook-slow/update-mailboxes-a#1"
	for kind, want := range map[string][]string{
		"careful":  {"--- PASS: " + refused, "--- PASS: " + slow},
		"careless": {"--- FAIL: " + refused, "--- PASS: " + slow, "end-state: after step", "the admission webhook is not served"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^TestSweepFindsIgnoredRefusal$/^webhook")
			cmd.Env = append(os.Environ(), variable+"="+kind)
			out, err := cmd.CombinedOutput()
			if (err == nil) != (kind == "careful") {
				t.Errorf("the process ended with %v", err)
			}
			for _, text := range want {
				if !strings.Contains(string(out), text) {
					t.Errorf("the output lacks %q:\n%s", text, out)
				}
			}
		})
	}
}
