package configrollout_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The unchanged manifest of the founding article: when nginx.conf changes, the Deployment is rolled.
func TestArticleManifest(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k, func(o *configrollout.Options) { o.AllWorkloads = true }) // as the label of a namespace does
	manifest, err := os.ReadFile("config/samples/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	conf, web := &corev1.ConfigMap{}, &appsv1.Deployment{}
	documents := strings.Split(string(manifest), "\n---\n")
	for i, o := range []client.Object{conf, web} {
		if err := yaml.UnmarshalStrict([]byte(documents[i]), o); err != nil {
			t.Fatal(err)
		}
		k.Apply(o)
	}
	k.Eventually(web, testkit.Ready(), adopted())
	waitIdle(k, op)
	if n := replicaSets(t, k, "web"); n != 1 {
		t.Errorf("to be adopted rolled the Deployment: it has %d ReplicaSets", n)
	}
	before := podNames(t, k, "web")
	k.Update(conf, func() {
		conf.Data["nginx.conf"] = strings.ReplaceAll(conf.Data["nginx.conf"], "one", "two")
	})
	k.Eventually(web, rolledFrom(""), result("Completed"), testkit.Ready())
	for _, name := range podNames(t, k, "web") {
		if slices.Contains(before, name) {
			t.Errorf("pod %s was not replaced", name)
		}
	}
	if n := replicaSets(t, k, "web"); n != 2 {
		t.Errorf("the Deployment has %d ReplicaSets, want 2", n)
	}
	last := lastRollout(t, web)
	if !slices.Equal(last.Sources, []string{"ConfigMap/nginx-conf"}) || last.ToDigest != digestOf(web) {
		t.Errorf("the last rollout is told as %+v", last)
	}
	waitEvent(k, web, "RolloutStarted")
	waitEvent(k, web, "RolloutCompleted")
	waitEvent(k, conf, "RolloutTriggered")
}

// podNames lists the pods that are not terminating.
func podNames(t *testing.T, k *testkit.K, app string) []string {
	t.Helper()
	list := &corev1.PodList{}
	if err := k.Client.List(k.Context(), list, client.InNamespace(k.Namespace), client.MatchingLabels{"app": app}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	return names
}

// All three kinds of workloads, with each kind of reference.
func TestEveryKindOfWorkload(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	workloads := []client.Object{deployment("deployment", "conf"), statefulSet("set", "conf"), daemonSet("daemon", "conf")}
	adopt(k, workloads...)
	change(k, "conf", "a", "2")
	for _, o := range workloads {
		k.Eventually(o, rolledFrom(""), result("Completed"), testkit.Ready())
	}
	if a, b := digestOf(workloads[0]), digestOf(workloads[1]); a != b {
		t.Errorf("the same content has the digests %s and %s", a, b)
	}
}
