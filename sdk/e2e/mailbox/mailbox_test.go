package mailbox_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/e2e/mailbox"
	"github.com/homeostat-dev/homeostat/testkit"
)

func newMailbox(address string) *mailbox.Mailbox {
	return &mailbox.Mailbox{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: mailbox.Spec{Address: address}}
}

// denied is how the API server begins a rejection by the validating webhook.
const denied = `admission webhook "validate.mailboxes.mail.homeostat.dev" denied the request: `

func TestValidation(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Run(mailbox.WithWebhooks)
	const invalid = denied + `Mailbox.mail.homeostat.dev "a" is invalid: spec.address: `
	if got, want := k.Refused(newMailbox("nowhere")),
		invalid+`Invalid value: "nowhere": must be an address, such as a@example.com`; got != want {
		t.Errorf("creation: %s\nwant: %s", got, want)
	}
	m := newMailbox("a@example.com")
	k.Apply(m)
	k.Eventually(m, testkit.Ready())
	got := k.RefusedUpdate(m, func() { m.Spec.Address = "b@example.com" })
	if want := invalid + "Forbidden: cannot change: create another mailbox"; got != want {
		t.Errorf("update: %s\nwant: %s", got, want)
	}
	k.Update(m, func() { m.Annotations = map[string]string{mailbox.KeepAnnotation: "yes"} })
	err := k.Client.Delete(k.Context(), m)
	want := denied + "mailbox a is kept: remove the annotation mail.homeostat.dev/keep first"
	if err == nil || err.Error() != want {
		t.Errorf("deletion: %v\nwant: %s", err, want)
	}
	k.Update(m, func() { m.Annotations = nil })
	k.Delete(m)
	k.Eventually(m, testkit.Gone())
}

func TestDefaulting(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Run(mailbox.WithWebhooks)
	m := newMailbox("a@example.com")
	k.Apply(m)
	if m.Spec.QuotaMiB != 100 {
		t.Errorf("the API server returns the quota %d, want 100", m.Spec.QuotaMiB)
	}
	k.Eventually(m, testkit.Ready())
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	k.Eventually(cm, testkit.Exists())
	if cm.Data["quota"] != "100" {
		t.Errorf("the operator sees the quota %q, want 100", cm.Data["quota"])
	}
}

// A mailbox from before a rule remains usable: its finalizer can be added and removed, although its address is invalid.
func TestObjectFromBeforeTheRule(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	m := newMailbox("nowhere")
	k.Apply(m) // without webhooks
	k.Run(mailbox.WithWebhooks)
	k.Eventually(m, testkit.Ready())
	if len(m.Finalizers) == 0 {
		t.Error("no finalizer")
	}
	k.Delete(m)
	k.Eventually(m, testkit.Gone())
}

// Webhooks are limited to the test whose operator serves them.
func TestWebhooksOfOtherTests(t *testing.T) {
	t.Parallel()
	k, other := testkit.New(t), testkit.New(t)
	k.Run(mailbox.WithWebhooks)
	other.Apply(newMailbox("nowhere"))
	k.Refused(newMailbox("nowhere"))
}

// While no operator runs, the API server rejects mailboxes. K.Apply waits for the restart.
func TestRestart(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Run(mailbox.WithWebhooks).Kill()
	direct, err := client.New(k.Config, client.Options{Scheme: k.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	m := newMailbox("a@example.com")
	m.Namespace = k.Namespace
	err = direct.Create(k.Context(), m)
	if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("without an operator: %v", err)
	}
	again := make(chan struct{})
	k.Wait("the operator runs again", func(context.Context) error {
		k.Run(mailbox.WithWebhooks)
		close(again)
		return nil
	})
	<-again
	k.Apply(m)
	k.Eventually(m, testkit.Ready())
}

func TestConversion(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Run(mailbox.WithWebhooks)
	m := newMailbox("a@example.com")
	k.Apply(m)
	old := &unstructured.Unstructured{}
	old.SetAPIVersion("mail.homeostat.dev/v1beta1")
	old.SetKind("Mailbox")
	old.SetName("a")
	k.Get(old)
	if quota, _, _ := unstructured.NestedInt64(old.Object, "spec", "quota"); quota != 100 {
		t.Errorf("v1beta1 has the spec %v", old.Object["spec"])
	}
}
