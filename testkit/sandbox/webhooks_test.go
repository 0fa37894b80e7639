package sandbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// withWebhooks is an operator with admission and conversion webhooks.
const withWebhooks = "../../sdk/e2e/mailbox"

// startMailbox starts a sandbox with the operator with webhooks.
func startMailbox(t *testing.T, withoutOperators bool) (*sandbox.Sandbox, *sandbox.Project, client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	set, err := assets.Find(ctx, assets.Options{Programs: cluster.Programs(cluster.Workloads)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := sandbox.Load(ctx, withWebhooks)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.Start(ctx, sandbox.Options{
		Projects: []*sandbox.Project{p}, Assets: set, WithoutOperators: withoutOperators,
		Report: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(s.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s, p, c
}

func newMailbox(name, address string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "mail.homeostat.dev/v1", "kind": "Mailbox",
		"metadata": map[string]any{"namespace": "default", "name": name},
		"spec":     map[string]any{"address": address},
	}}
}

// rejected is the answer of the API server to a mailbox without an address.
const rejected = `admission webhook "validate.mailboxes.mail.homeostat.dev" denied the request: ` +
	`Mailbox.mail.homeostat.dev "invalid" is invalid: spec.address: Invalid value: "nowhere": ` +
	`must be an address, such as a@example.com`

// checkWebhooks checks that the webhooks reject, default and convert objects.
func checkWebhooks(t *testing.T, c client.Client) {
	t.Helper()
	if err := c.Create(t.Context(), newMailbox("invalid", "nowhere")); err == nil || err.Error() != rejected {
		t.Errorf("an invalid mailbox: %v, want %s", err, rejected)
	}
	valid := newMailbox("valid", "a@example.com")
	if err := c.Create(t.Context(), valid); err != nil {
		t.Fatal(err)
	}
	if quota, _, _ := unstructured.NestedInt64(valid.Object, "spec", "quotaMiB"); quota != 100 {
		t.Errorf("a valid mailbox has the quota %d, want the default 100", quota)
	}
	old := &unstructured.Unstructured{}
	old.SetAPIVersion("mail.homeostat.dev/v1beta1")
	old.SetKind("Mailbox")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(valid), old); err != nil {
		t.Fatal(err)
	}
	if quota, _, _ := unstructured.NestedInt64(old.Object, "spec", "quota"); quota != 100 {
		t.Errorf("in the old version it has the quota %d, want 100", quota)
	}
}

// The sample is applied as soon as the API server can call the webhooks of the process.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	s, _, c := startMailbox(t, false)
	ready(t, s)
	checkWebhooks(t, c)
}

// The Service has the pods that are ready, as in a cluster.
func TestWebhooksOfPods(t *testing.T) {
	t.Parallel()
	s, p, c := startMailbox(t, true)
	deployment, err := manifest.FromObject(p.Deployment, c.Scheme())
	if err != nil {
		t.Fatal(err)
	}
	objects := slices.Concat(p.Objects, []*unstructured.Unstructured{deployment})
	i := slices.IndexFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "Namespace" })
	objects[0], objects[i] = objects[i], objects[0] // first
	if err := manifest.Install(t.Context(), s.Config(), objects); err != nil {
		t.Fatal(err)
	}
	until(t, "the webhooks are called", func() bool {
		err := c.Create(t.Context(), newMailbox("invalid", "nowhere"), client.DryRunAll)
		return err != nil && err.Error() == rejected
	})
	checkWebhooks(t, c)
}

// A project whose webhooks cannot be called is a mistake, which is reported before anything is started.
func TestUncallableWebhooks(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string]sandbox.Options{
		"calls Service mailbox-operator/mailbox-webhook, which its config does not have: add the Service, or correct " +
			"clientConfig.service": {},
		"has webhooks, and the cluster of context kind cannot call processes of this machine: leave --context out, or deploy " +
			"the operator there": {Existing: &sandbox.ExistingCluster{Context: "kind"}},
	} {
		p, err := sandbox.Load(t.Context(), withWebhooks)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range p.Objects {
			if u.GetKind() == "Service" {
				u.SetName("other")
			}
		}
		opts.Projects = []*sandbox.Project{p}
		_, err = sandbox.Start(t.Context(), opts)
		if wrong, ok := errors.AsType[*sandbox.ProjectError](err); !ok || !strings.Contains(wrong.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
