package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/bundle"
	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The operator with webhooks.
const (
	mailbox         = "../../sdk/e2e/mailbox"
	mailboxes       = "mailboxes.mail.homeostat.dev"
	mailboxService  = "mailbox-operator-service"    // as OLM names it
	mailboxRevision = "test.homeostat.dev/revision" // an annotation of the definition: the version of its bundle
)

// OLM makes the Service and the certificate of an operator with webhooks, and writes its authority into the configurations
// and into the definition. The API server calls the program by the Service: invalid objects are rejected, and objects are
// converted. An upgrade never takes the conversion from the definition.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	s := newSuiteOf(t, []string{mailbox}, testkit.Private())
	source := s.offer(mailboxCatalog(t, "0.2.0"), nil)
	s.subscribeToMailbox()
	s.waitInstalled("0.2.0")
	s.checkWebhooks("a")

	check := s.watchConversion()
	s.offer(mailboxCatalog(t, "0.2.0", "0.3.0"), source)
	s.waitInstalled("0.3.0")
	s.checkWebhooks("b")
	check("0.3.0")
}

// mailboxCatalog returns a catalog of versions of the operator.
func mailboxCatalog(t *testing.T, versions ...string) *declcfg.DeclarativeConfig {
	t.Helper()
	folders := map[string]string{}
	var text strings.Builder
	text.WriteString("schema: olm.semver\ngenerateMajorChannels: true\ngenerateMinorChannels: false\nstable:\n  bundles:\n")
	for _, version := range versions {
		b, err := bundle.Render(mailbox, "homeostat/mailbox@sha256:"+strings.Repeat("a", 64))
		if err != nil {
			t.Fatal(err)
		}
		b.CSV.Name = "mailbox-operator.v" + version
		b.CSV.Spec.Version.Version = semver.MustParse(version)
		for _, o := range b.Objects {
			if o.GetKind() == "CustomResourceDefinition" {
				o.SetAnnotations(map[string]string{mailboxRevision: version})
			}
		}
		image := "homeostat/mailbox-bundle:v" + version
		folders[image] = filepath.Join(t.TempDir(), "mailbox")
		if err := b.Write(folders[image]); err != nil {
			t.Fatal(err)
		}
		text.WriteString("    - image: " + image + "\n")
	}
	file := filepath.Join(t.TempDir(), "mailbox.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	catalog, err := olm.Render(t.Context(), file, func(image string) (string, error) { return folders[image], nil }, olm.Inline)
	if err != nil {
		t.Fatal(err)
	}
	return catalog
}

// subscribeToMailbox installs the operator with the manifests of another one.
func (s *suite) subscribeToMailbox() {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(manifests, "myapp.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), "mailbox.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(data), "myapp", "mailbox")), 0o600); err != nil {
		s.t.Fatal(err)
	}
	objects, err := fixture.Read(file)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, o := range objects {
		s.k.Apply(o)
	}
}

// watch returns the events of a watch that ends with the test.
func (s *suite) watch(list client.ObjectList, options metav1.ListOptions) <-chan watch.Event {
	s.t.Helper()
	c, err := client.NewWithWatch(s.k.Config, client.Options{Scheme: s.k.Client.Scheme()})
	if err != nil {
		s.t.Fatal(err)
	}
	w, err := c.Watch(s.t.Context(), list, &client.ListOptions{Raw: &options})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(w.Stop)
	return w.ResultChan()
}

// checkWebhooks creates an object with that name in the older version, after an invalid one.
func (s *suite) checkWebhooks(name string) {
	s.t.Helper()
	old := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"address": "nowhere"}}}
	old.SetAPIVersion("mail.homeostat.dev/v1beta1")
	old.SetKind("Mailbox")
	old.SetNamespace(s.k.Namespace)
	old.SetName(name)
	s.k.Wait("the webhook to reject an object", func(ctx context.Context) error {
		err := s.k.Client.Create(ctx, old.DeepCopy())
		const want = `admission webhook "validate.mailboxes.mail.homeostat.dev" denied the request`
		if err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("the error is %w", err)
		}
		return nil
	})
	old.Object["spec"] = map[string]any{"address": "a@example.com"}
	s.k.Apply(old)
	s.k.Eventually(old, testkit.Ready())
	if quota, _, _ := unstructured.NestedInt64(old.Object, "spec", "quota"); quota != 100 {
		s.t.Errorf("the default is not set, or not converted: %v", old.Object["spec"])
	}
}

func convertsByWebhook(crd *apiextensionsv1.CustomResourceDefinition) bool {
	c := crd.Spec.Conversion
	return c != nil && c.Strategy == apiextensionsv1.WebhookConverter && c.Webhook.ClientConfig.Service.Name == mailboxService
}

// watchConversion begins to record the states of the definition. check expects all states to have the conversion, and the
// last one to be of a version.
func (s *suite) watchConversion() (check func(version string)) {
	s.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: mailboxes}}
	s.k.Get(crd)
	events := s.watch(&apiextensionsv1.CustomResourceDefinitionList{}, metav1.ListOptions{
		FieldSelector: "metadata.name=" + mailboxes, ResourceVersion: crd.ResourceVersion,
	})
	return func(version string) {
		s.t.Helper()
		s.k.Get(crd)
		if crd.Annotations[mailboxRevision] != version {
			s.t.Fatalf("the definition is of version %s", crd.Annotations[mailboxRevision])
		}
		for event := range events {
			state, ok := event.Object.(*apiextensionsv1.CustomResourceDefinition)
			if !ok {
				s.t.Fatalf("the watch has ended: %v", event.Object)
			}
			if !convertsByWebhook(state) {
				s.t.Errorf("with resourceVersion %s, the conversion was %v", state.ResourceVersion, state.Spec.Conversion)
			}
			if state.ResourceVersion == crd.ResourceVersion {
				return
			}
		}
		s.t.Error("the watch has ended early")
	}
}
