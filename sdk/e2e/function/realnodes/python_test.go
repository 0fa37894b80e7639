// Package realnodes_test runs a function in Python in a pod, in the image that is made without Docker.
package realnodes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

const (
	root       = "../../../.."
	baseImages = root + "/build/images-base"
	images     = root + "/build/images-python"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{Real: &testkit.RealNodes{Images: []string{baseImages, images}}})
}

// run runs a command in a folder of the repository.
func run(t *testing.T, folder, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = filepath.Join(root, folder)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// A new project is installed from its manifests, with its image, and its sample becomes Ready: its pods serve a page.
func TestPython(t *testing.T) {
	if os.Getenv("TESTKIT_NODES") != "1" {
		t.Skip("the images for real nodes are not built without TESTKIT_NODES=1: see make test/nodes")
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(t.TempDir(), "shop")
	run(t, "sdk/cmd/homeostat", "go", "run", ".", "new", "shop", "--group", "shop.example.com", "--kind", "Shop",
		"--language", "python", "--dir", project, "--homeostat", top)
	run(t, "tools/images", "go", "run", ".", "build", "-o", filepath.Join(top, "build/images-python"), "-version", "dev",
		"-name", "shop", "-prefix", "registry.invalid/", "-python", filepath.Join(top, "build/images-base"), project)
	deployment := filepath.Join(project, "config/manager/deployment.yaml")
	text, err := os.ReadFile(deployment)
	if err != nil {
		t.Fatal(err)
	}
	replaced := strings.Replace(string(text), "registry.invalid/shop:dev", "shop:dev", 1)
	if err := os.WriteFile(deployment, []byte(replaced), 0o600); err != nil {
		t.Fatal(err)
	}

	k := testkit.New(t)
	k.Timeout = 5 * time.Minute
	kubectl := testkit.Kubectl(t, k.Config)
	manifests := filepath.Join(project, "config/default")
	defer kubectl("delete", "--ignore-not-found", "-k", manifests) // not in Cleanup: the context of the test ends before
	kubectl("apply", "--server-side", "-k", manifests)
	kubectl("apply", "--namespace", k.Namespace, "-f", filepath.Join(project, "config/samples/example.yaml"))
	shop := &unstructured.Unstructured{}
	shop.SetAPIVersion("shop.example.com/v1alpha1")
	shop.SetKind("Shop")
	shop.SetName("example")
	k.Eventually(shop, testkit.Ready())

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "example"}}
	k.Eventually(service, testkit.Exists())
	before := service.UID
	k.Delete(service)
	k.Eventually(service, testkit.Match("the Service is another one", func(s *corev1.Service) bool { return s.UID != before }))
	var pods corev1.PodList
	instance := client.MatchingLabels{"app.kubernetes.io/instance": "example"}
	if err := k.Client.List(t.Context(), &pods, client.InNamespace(k.Namespace), instance); err != nil || len(pods.Items) != 2 {
		t.Fatalf("there are %d pods, %v", len(pods.Items), err)
	}
	for i := range pods.Items {
		if page, err := k.Fetch(&pods.Items[i], 80, "/"); err != nil || !strings.Contains(page, "nginx") {
			t.Errorf("%s serves %q, %v", pods.Items[i].Name, page, err)
		}
	}
}
