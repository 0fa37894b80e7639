package mailbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// operatorNamespace is the namespace of the shipped manifests.
const operatorNamespace = "mailbox-operator"

// readManifests returns the objects of a shipped file.
func readManifests(t *testing.T, file string) (objects []*unstructured.Unstructured) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("config", file))
	if err != nil {
		t.Fatal(err)
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(object); {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			t.Fatal(err)
		case object.Object != nil:
			objects = append(objects, object)
		}
	}
}

// With the permissions of the shipped manifests, and no others, the program fills the shipped Secret, and writes its
// authority into the configurations and the CustomResourceDefinition. The API server calls it as the Service: it admits and
// converts objects.
func TestShippedManifests(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	address, probes := freeAddress(t), freeAddress(t)
	for _, file := range []string{
		"manager/namespace.yaml", "crd/mailboxes.yaml", "rbac/rbac.yaml", "webhook/manifests.yaml", "webhook/secret.yaml",
		"webhook/service.yaml", "webhook/rbac.yaml", "manager/deployment.yaml",
	} {
		for _, object := range readManifests(t, file) {
			if object.GetKind() == "Service" {
				object.SetAnnotations(map[string]string{cluster.AddressAnnotation: address})
			}
			k.Apply(object)
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "mailbox-operator"}}
	token := &authenticationv1.TokenRequest{}
	if err := k.Client.SubResource("token").Create(k.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(k.Config)
	cfg.BearerToken = token.Status.Token
	// The flags that take the place of a pod.
	p := startAs(t, cfg, withConversion, "--webhook-bind-address="+address, "--health-probe-bind-address="+probes,
		"--webhook-service="+operatorNamespace+"/mailbox-webhook")
	ready(k, p, probes)
	awaitDenied(k)
	m := newMailbox("a@example.com")
	k.Apply(m)
	k.Eventually(m, testkit.Ready())
	k.Wait("the program converts objects", func(ctx context.Context) error {
		old := &unstructured.Unstructured{}
		old.SetAPIVersion("mail.homeostat.dev/v1beta1")
		old.SetKind("Mailbox")
		if err := k.Client.Get(ctx, client.ObjectKeyFromObject(m), old); err != nil {
			return err
		}
		if quota, _, _ := unstructured.NestedInt64(old.Object, "spec", "quota"); quota != 100 {
			return errors.New("the quota of v1beta1 is not 100")
		}
		return nil
	})
	k.Delete(m)
	k.Eventually(m, testkit.Gone())
}

// callAddress puts an address in place of the Service.
func callAddress(t *testing.T, object *unstructured.Unstructured, address string) {
	t.Helper()
	var err error
	switch object.GetKind() {
	case "CustomResourceDefinition":
		err = unstructured.SetNestedMap(object.Object, map[string]any{"url": "https://" + address + "/convert"},
			"spec", "conversion", "webhook", "clientConfig")
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		webhooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, item := range webhooks {
			webhook := item.(map[string]any)
			path, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "path")
			webhook["clientConfig"] = map[string]any{"url": "https://" + address + path}
		}
		err = unstructured.SetNestedSlice(object.Object, webhooks, "webhooks")
	}
	if err != nil {
		t.Fatal(err)
	}
}
