package config_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

const (
	root      = "../../.."
	namespace = "immortalcontainers-operator"
	crd       = "immortalcontainers.immortalcontainer.flugel.it"
)

// waitServed waits until the API server serves ImmortalContainers; kubectl wait fails if the CRD has no conditions yet.
func waitServed(t *testing.T, k *testkit.K) {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd}}
	k.Eventually(definition, testkit.Condition("Established", metav1.ConditionTrue))
	// The API server serves the kind a moment after it has set the condition.
	served := func(ctx context.Context) (bool, error) {
		return k.Client.List(ctx, &v1alpha1.ImmortalContainerList{}) == nil, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, k.Timeout, true, served); err != nil {
		t.Fatalf("the kind is not served: %v", err)
	}
}

// `make deploy` installs everything, `make undeploy` removes everything but the CRD and its objects, and `make
// undeploy-all` removes those too. No operator runs here, so no finalizer blocks the deletion of the objects.
func TestDeployAndUndeploy(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"default", "namespaced"} {
		if testing.Short() && overlay != "default" {
			continue // it takes twenty seconds
		}
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t, testkit.Private())
			kubectl, sh := testkit.Kubectl(t, k.Config), shellFor(t, k.Config)
			installed := func(when string, want ...string) {
				t.Helper()
				got := strings.Fields(kubectl("get", "-k", overlay, "-o", "name", "--ignore-not-found"))
				slices.Sort(got)
				if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
					t.Errorf("objects %s, -want +got:\n%s", when, diff)
				}
			}
			deploy := func() {
				t.Helper()
				sh("make deploy CONFIG=" + overlay + " IMAGE=elsewhere/immortalcontainer:1")
				installed("after make deploy", objectNames(t, overlay)...)
				waitServed(t, k)
				kubectl("apply", "-k", "samples")
			}

			deploy()
			controller := &appsv1.Deployment{}
			controller.Name = "immortalcontainers-controller"
			controller.Namespace = namespace
			k.Get(controller)
			if got := controller.Spec.Template.Spec.Containers[0].Image; got != "elsewhere/immortalcontainer:1" {
				t.Errorf("make deploy IMAGE=... deploys %s", got)
			}
			sh("make undeploy CONFIG=" + overlay)
			installed("after make undeploy", "customresourcedefinition.apiextensions.k8s.io/"+crd)
			if got := kubectl("get", "imc", "-o", "name"); !strings.Contains(got, "/example-immortal-container\n") {
				t.Errorf("after make undeploy there are the ImmortalContainers %q", got)
			}
			sh("make undeploy-all CONFIG=" + overlay)
			installed("after make undeploy and make undeploy-all")

			deploy()
			sh("make undeploy-all CONFIG=" + overlay)
			installed("after make undeploy-all")
		})
	}
}

// An object that still has the operator's finalizer is deleted by the commands in the README, and its child stays.
func TestRemedyForStrandedObjects(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	kubectl, sh := testkit.Kubectl(t, k.Config), shellFor(t, k.Config)
	kubectl("apply", "-k", "crd")
	waitServed(t, k)
	ic := &v1alpha1.ImmortalContainer{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "example-immortal-container", Finalizers: []string{"homeostat.dev/immortalcontainer"},
	}}
	ic.Spec.Image = "nginx:latest"
	ic.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
	k.Apply(ic)
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "child"}}
	owner := metav1.NewControllerRef(ic, v1alpha1.GroupVersion.WithKind("ImmortalContainer"))
	child.OwnerReferences = []metav1.OwnerReference{*owner}
	k.Apply(child)

	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(readme), "```console\n$ kubectl patch imc")
	block, _, _ = strings.Cut(block, "```")
	if block == "" {
		t.Fatal("the README has no block of commands that begins with kubectl patch imc")
	}
	sh("kubectl patch imc" + strings.ReplaceAll(block, "\n$ ", "\n"))
	k.Eventually(ic, testkit.Gone())
	k.Eventually(child, testkit.Match("free", func(c *corev1.ConfigMap) bool {
		return len(c.OwnerReferences) == 0 && c.DeletionTimestamp == nil
	}))
}

// objectNames lists the objects of an overlay as kubectl names them, sorted.
func objectNames(t *testing.T, overlay string) []string {
	t.Helper()
	var names []string
	for _, o := range testkit.Kustomize(t, overlay) {
		kind := strings.ToLower(o.GetKind())
		if group := o.GroupVersionKind().Group; group != "" {
			kind += "." + group
		}
		names = append(names, kind+"/"+o.GetName())
	}
	slices.Sort(names)
	return names
}

// shellFor returns a function that runs a script at the root of the repository, with a kubectl for that API server.
func shellFor(t *testing.T, cfg *rest.Config) func(script string) {
	t.Helper()
	set, err := assets.Find(t.Context(), assets.Options{Programs: []string{assets.Kubectl}})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	data, err := cluster.Kubeconfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, data, 0o600); err != nil {
		t.Fatal(err)
	}
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=") // variables that a calling make or its user sets
		return slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "OPERATOR", "CONFIG", "IMAGE"}, name)
	})
	env = append(env, "KUBECONFIG="+kubeconfig, "KUBECTL="+set.Path(assets.Kubectl),
		"PATH="+set.Dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func(script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-euc", script)
		cmd.Dir = root
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
}
