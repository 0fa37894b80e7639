package realnodes_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/testkit"
)

// OLM v0 installs two operators by Subscriptions, one of them with webhooks. Its pods serve the image of the catalog and
// unpack the images of the bundles. The operators run in pods of the images that the bundles name, with the certificate that
// OLM mounts. A new catalog upgrades them; the container of an object runs on. The removal leaves what OLM never deletes.
func TestV0(t *testing.T) {
	s := start(t)
	for _, o := range v0.Pods() {
		s.Apply(o)
		if d, ok := o.(*appsv1.Deployment); ok {
			s.Eventually(d, testkit.Ready())
		}
	}
	s.logElapsed("OLM runs")
	before := s.objects()
	source := s.addCatalog()
	var applied []*unstructured.Unstructured
	for _, operator := range []string{immortal, mailbox} {
		applied = append(applied, s.apply("v0", operator)...)
	}
	s.waitSubscriptions(s.Previous)
	s.checkPod(immortal, s.Previous)
	s.checkCertificate(s.checkPod(mailbox, s.Previous))
	server := s.newServer()
	s.checkMailbox("a")

	s.Update(source, func() { source.Spec.Image = catalogImage(s.Current) })
	s.waitSubscriptions(s.Current)
	s.checkPod(immortal, s.Current)
	s.checkCertificate(s.checkPod(mailbox, s.Current))
	server.checkSurvived()
	s.checkMailbox("b")

	server.delete()
	s.deleteMailboxes("a", "b")
	s.uninstallV0(applied)
	s.Delete(source)
	s.deleteRoles()
	s.waitLeft(before, leftByV0...)
}

// leftByV0 are the objects that OLM makes and does not delete with an operator: its list of the objects of a package, and
// the permission of a webhook's server to read how clients are authenticated.
var leftByV0 = []string{
	"Operator /immortalcontainer-operator.immortalcontainer-operator",
	"Operator /mailbox-operator.mailbox-operator",
	"RoleBinding kube-system/mailbox-operator-service-auth-reader",
}

// deleteRoles deletes the roles for users, as docs/install.md describes: OLM does not delete them either.
func (s *suite) deleteRoles() {
	s.t.Helper()
	for _, name := range []string{"edit", "metrics-reader", "view"} {
		s.Delete(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "immortalcontainers-" + name}})
	}
}

// addCatalog applies the manifest of the catalog, with the image of the previous one.
func (s *suite) addCatalog() *v1alpha1.CatalogSource {
	s.t.Helper()
	manifest := s.read("v0/catalog")[0]
	if err := unstructured.SetNestedField(manifest.Object, catalogImage(s.Previous), "spec", "image"); err != nil {
		s.t.Fatal(err)
	}
	s.Apply(manifest)
	source := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{
		Namespace: manifest.GetNamespace(), Name: manifest.GetName(),
	}}
	s.Eventually(source, testkit.Match("connected", v0.IsConnected))
	s.logElapsed("a pod serves the catalog")
	return source
}

// waitSubscriptions waits until both operators are installed in a version.
func (s *suite) waitSubscriptions(version string) {
	s.t.Helper()
	want := map[string]string{immortal + "-operator": version, mailbox + "-operator": version}
	s.Wait(fmt.Sprintf("OLM to settle at %v", want), fixture.Stable(func(ctx context.Context) error {
		return v0.CheckInstalled(ctx, s.Client, want)
	}))
	s.logElapsed("OLM v0 has installed " + version)
}

// checkCertificate expects a pod to mount the Secret with the certificate that OLM has made.
func (s *suite) checkCertificate(pod *corev1.Pod) {
	s.t.Helper()
	const name = "mailbox-operator-service-cert"
	mounted := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == name &&
			slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
	})
	if !mounted {
		s.t.Errorf("pod %s does not mount Secret %s", pod.Name, name)
	}
}

// uninstallV0 deletes all that OLM made, as docs/install.md describes. It leaves the definitions, the roles for users and
// the objects of the manifests to the administrator.
func (s *suite) uninstallV0(applied []*unstructured.Unstructured) {
	s.t.Helper()
	for _, operator := range []string{immortal, mailbox} {
		csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{
			Namespace: operator + "-operator", Name: operator + "-operator.v" + s.Current,
		}}
		s.Get(csv)
		s.Delete(&v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: csv.Namespace, Name: operator}})
		s.Delete(csv)
		s.waitNoPods(csv.Namespace)
		owned := csv.Spec.CustomResourceDefinitions.Owned // one for each version of a kind
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: owned[0].Name}}
		s.Delete(crd)
		s.Eventually(crd, testkit.Gone())
	}
	s.deleteNamespaces(applied)
	s.logElapsed("OLM v0 has removed the operators")
}
