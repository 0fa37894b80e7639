package bundle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/manifests"

	"github.com/homeostat-dev/homeostat/bundle"
)

const mailbox = "../sdk/e2e/mailbox"

var mailboxImage = "homeostat/mailbox@sha256:" + strings.Repeat("a", 64)

// writeMailbox writes the bundle of the example with webhooks.
func writeMailbox(t *testing.T) (dir string, b *manifests.Bundle) {
	t.Helper()
	rendered, err := bundle.Render(mailbox, mailboxImage)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "mailbox")
	if err := rendered.Write(dir); err != nil {
		t.Fatal(err)
	}
	if b, err = manifests.GetBundleFromDir(dir); err != nil {
		t.Fatal(err)
	}
	return dir, b
}

// A bundle has the webhooks of config, and the definition refers to the Service that OLM makes. What a program with a
// certificate of its own needs is not in it.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	dir, b := writeMailbox(t)
	problems, err := bundle.Check(dir)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	var got []string
	for _, w := range b.CSV.Spec.WebhookDefinitions {
		var rules []string
		for _, r := range w.Rules {
			rules = append(rules, fmt.Sprint(r.APIGroups, r.Resources, r.Operations))
		}
		got = append(got, fmt.Sprintf("%s %s %s %d>%s %s %v %v %v %s", w.Type, w.GenerateName, w.DeploymentName, w.ContainerPort,
			w.TargetPort, *w.WebhookPath, w.ConversionCRDs, rules, w.AdmissionReviewVersions, *w.SideEffects))
	}
	const rule = "[[mail.homeostat.dev] [mailboxes] [CREATE UPDATE"
	want := []string{
		"ConversionWebhook convert.mailboxes.mail.homeostat.dev mailbox-operator 443>9443 /convert " +
			"[mailboxes.mail.homeostat.dev] [] [v1] None",
		"MutatingAdmissionWebhook default.mailboxes.mail.homeostat.dev mailbox-operator 443>9443 " +
			"/mutate-mail-homeostat-dev-v1-mailbox [] " + rule + "]] [v1] None",
		"ValidatingAdmissionWebhook validate.mailboxes.mail.homeostat.dev mailbox-operator 443>9443 " +
			"/validate-mail-homeostat-dev-v1-mailbox [] " + rule + " DELETE]] [v1] None",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("webhooks, -want +got:\n%s", diff)
	}
	if service := b.V1CRDs[0].Spec.Conversion.Webhook.ClientConfig.Service; service.Name != "mailbox-operator-service" ||
		*service.Port != 443 {
		t.Errorf("the definition refers to %s, port %d", service.Name, *service.Port)
	}
	for path, content := range tree(t, dir) {
		for _, wrong := range []string{"mailbox-webhook", "WebhookConfiguration", "admissionregistration.k8s.io"} {
			if strings.Contains(content, wrong) {
				t.Errorf("%s has %q", path, wrong)
			}
		}
	}
}

// Webhooks that OLM refuses in the cluster are reported.
func TestTamperedWebhooks(t *testing.T) {
	t.Parallel()
	const csv, crd = "manifests/mailbox-operator.clusterserviceversion.yaml", "manifests/mail.homeostat.dev_mailboxes.yaml"
	for name, c := range map[string]struct{ file, from, to, want string }{
		"another Deployment": {csv, "deploymentName: mailbox-operator", "deploymentName: other", `no Deployment "other"`},
		"one namespace": {
			csv, "supported: false\n    type: OwnNamespace", "supported: true\n    type: OwnNamespace", "only AllNamespaces",
		},
		"not owned":     {csv, "conversionCRDs:\n    - mailboxes", "conversionCRDs:\n    - boxes", "converts boxes.mail"},
		"not converted": {csv, "conversionCRDs:\n    - mailboxes.mail.homeostat.dev\n", "conversionCRDs: []\n", "no webhook of"},
		"twice": {
			csv, "conversionCRDs:\n", "conversionCRDs:\n    - mailboxes.mail.homeostat.dev\n", "two webhooks convert",
		},
		"all groups": {
			csv, "- apiGroups:\n      - mail.homeostat.dev\n      apiV", "- apiGroups:\n      - '*'\n      apiV", "API group *",
		},
		"no domain":          {csv, "generateName: default.", "generateName: Default.", "no domain"},
		"the same name":      {csv, "type: MutatingAdmissionWebhook", "type: ValidatingAdmissionWebhook", ""},
		"without conversion": {crd, "strategy: Webhook", "strategy: None", "has no conversion webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, _ := writeMailbox(t)
			replace(t, filepath.Join(dir, c.file), c.from, c.to)
			if name == "the same name" {
				replace(t, filepath.Join(dir, c.file), "generateName: default.", "generateName: validate.")
				c.want = "two webhooks are ValidatingAdmissionWebhook validate."
			}
			problems, err := bundle.Check(dir)
			if said := fmt.Sprint(err, problems); !strings.Contains(said, c.want) {
				t.Errorf("it says %s\nwant %q", said, c.want)
			}
		})
	}
}

// A webhook that a bundle cannot have is refused.
func TestWebhooksWithoutBundle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, from, to, want string }{
		"no Service": {"service.yaml", "kind: Service", "kind: ConfigMap", "needs a Service"},
		"selective": {
			"manifests.yaml", "  failurePolicy: Fail", "  namespaceSelector: {matchLabels: {a: b}}\n  failurePolicy: Fail",
			"webhook default.mailboxes.mail.homeostat.dev has a namespaceSelector",
		},
		"a URL": {
			"manifests.yaml", "    service:\n      name: mailbox-webhook\n      namespace: mailbox-operator\n      path: /mutate*",
			"    url: https://example.com", "calls no Service",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "mailbox")
			for _, part := range []string{"config", "api"} {
				if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(mailbox, part))); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/mailbox\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			replace(t, filepath.Join(dir, "config/webhook", c.file), c.from, c.to)
			if _, err := bundle.Render(dir, mailboxImage); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// The folder config/olm takes the place of config/default, so that a bundle can lack the webhooks of the operator.
func TestOverlayForOLM(t *testing.T) {
	t.Parallel()
	b, err := manifests.GetBundleFromDir("copyrator")
	if err != nil {
		t.Fatal(err)
	}
	if len(b.CSV.Spec.WebhookDefinitions) > 0 {
		t.Errorf("it has the webhooks %v", b.CSV.Spec.WebhookDefinitions)
	}
	args := b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--webhook-bind-address=0") {
		t.Errorf("the arguments are %v", args)
	}
	served := map[string]bool{}
	for _, crd := range b.V1CRDs {
		if crd.Spec.Conversion != nil {
			t.Errorf("%s has the conversion %v", crd.Name, crd.Spec.Conversion)
		}
		for _, v := range crd.Spec.Versions {
			served[v.Name] = v.Served
		}
	}
	if diff := cmp.Diff(map[string]bool{"v1": true, "v2": false}, served); diff != "" {
		t.Errorf("served versions (-want +got):\n%s", diff)
	}
	if strings.Contains(b.CSV.Annotations["alm-examples"], "flant.com/v2") {
		t.Error("an example is in a version that is not served")
	}
}
