package main

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// Each value of the webhooks has its documented effect.
func TestWebhookValues(t *testing.T) {
	t.Parallel()
	dir := withChart(t, mailbox)
	type found struct {
		Service, Secret, Configuration, Certificate, Issuer, Rights bool
		Args                                                        []string
		Ingress                                                     int
		Annotated                                                   []string // kinds with an authority of cert-manager
	}
	own := found{Service: true, Secret: true, Configuration: true, Rights: true, Ingress: 2}
	issued := found{
		Service: true, Configuration: true, Certificate: true, Issuer: true, Ingress: 2,
		Args: []string{"--webhook-cert-dir=/certificate"},
		Annotated: []string{
			"CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
		},
	}
	ofTeam, bound := issued, own
	ofTeam.Issuer = false
	bound.Rights = false
	withoutMetrics := own
	withoutMetrics.Ingress = 1
	nothing := found{Args: []string{"--webhook-bind-address=0"}}
	onlyMetrics := nothing
	onlyMetrics.Ingress = 1
	off := []string{"webhooks.enabled=false", "crds.enabled=false"}
	for name, tc := range map[string]struct {
		set  []string
		want found
	}{
		"a certificate of its own":     {nil, own},
		"cert-manager":                 {certManager, issued},
		"an issuer of the cluster":     {append(certManager, "webhooks.certManager.issuerRef.name=team"), ofTeam},
		"rights given by an admin":     {[]string{"rbac.create=false"}, bound},
		"webhooks without metrics":     {[]string{"metrics.enabled=false"}, withoutMetrics},
		"webhooks of another release":  {off, onlyMetrics},
		"neither webhooks nor metrics": {append(off, "metrics.enabled=false"), nothing},
	} {
		objects, err := render(t, load(t, dir), "here", tc.set...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o := rendered{t, objects}
		got := found{
			Secret: o.has("Secret"), Configuration: o.has("ValidatingWebhookConfiguration"), Certificate: o.has("Certificate"),
			Issuer: o.has("Issuer"), Ingress: o.ingressRules(),
		}
		for _, arg := range stringsOf(o.container()["args"]) {
			if strings.HasPrefix(arg, "--webhook") {
				got.Args = append(got.Args, arg)
			}
		}
		for _, object := range objects {
			got.Service = got.Service || object.GetKind() == "Service" && object.GetName() == "mailbox-webhook"
			got.Rights = got.Rights || object.GetKind() == "ClusterRole" && object.GetName() == "mailbox-webhook"
			if object.GetAnnotations()["cert-manager.io/inject-ca-from"] == "here/mailbox-webhook" {
				got.Annotated = append(got.Annotated, object.GetKind())
			}
			for _, service := range services(object) {
				if service["namespace"] != "here" {
					t.Errorf("%s: %s %s calls a Service in %v", name, object.GetKind(), object.GetName(), service["namespace"])
				}
			}
		}
		slices.Sort(got.Annotated)
		if diff := gocmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
	}
}

// A value that would break the webhooks is refused.
func TestWebhookValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	dir := withChart(t, mailbox)
	for set, want := range map[string]string{
		"webhooks.enabled=false":                        "webhooks.enabled: the definitions convert objects by a webhook",
		"webhooks.certManager=true":                     "certManager",
		"webhooks.certmanager.enabled=true":             "certmanager",
		"webhooks.certManager.issuerRef.kind=Issuer":    "name",
		"webhooks.certManager.issuerRef.apiVersion=a/b": "apiVersion",
	} {
		if _, err := render(t, load(t, dir), "here", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: error %v, want one about %s", set, err, want)
		}
	}
}

// An operator may only convert objects, and its pods may have volumes. A config that a chart cannot have is refused.
func TestWebhookConfig(t *testing.T) {
	t.Parallel()
	dir := copyOf(t, mailbox)
	edit(t, dir, "webhook/kustomization.yaml", "  - manifests.yaml\n", "")
	const volumes, mounts = "      volumes: [{name: a, emptyDir: {}}]\n", "          volumeMounts: [{name: a, mountPath: /a}]\n"
	edit(t, dir, "manager/deployment.yaml", "      containers:\n", volumes+"      containers:\n")
	edit(t, dir, "manager/deployment.yaml", "          resources:\n", mounts+"          resources:\n")
	if err := generate(dir, "", ""); err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]int{"replicas=1": 1, certManager[0]: 2} {
		objects, err := render(t, load(t, dir), "here", set)
		if err != nil {
			t.Fatal(err)
		}
		o := rendered{t, objects}
		mounts, _ := o.container()["volumeMounts"].([]any)
		volumes, _ := o.pod("volumes").([]any)
		if len(mounts) != want || len(volumes) != want || o.has("ValidatingWebhookConfiguration") {
			t.Errorf("with %s: volumes %v, mounted %v", set, volumes, mounts)
		}
		if called := services(find(t, objects, kindDefinition)); len(called) != 1 || called[0]["namespace"] != "here" {
			t.Errorf("the conversion calls %v", called)
		}
	}
	for _, tc := range []struct{ file, from, to, want string }{
		{"crd/mailboxes.yaml", "name: mailbox-webhook", "name: other", "calls Service mailbox-operator/other"},
		{"webhook/manifests.yaml", "namespace: mailbox-operator", "namespace: other", "calls Service other/mailbox-webhook"},
		{"manager/network_policy.yaml", "port: webhook", "port: probes", "NetworkPolicy mailbox-operator blocks the API server"},
		{"webhook/service.yaml", "kind: Service", "kind: ConfigMap", "may have webhook configurations, a Service"},
	} {
		dir := copyOf(t, mailbox)
		edit(t, dir, tc.file, tc.from, tc.to)
		if err := generate(dir, "", ""); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s with %s: error %v, want %q", tc.file, tc.to, err, tc.want)
		}
	}
}
