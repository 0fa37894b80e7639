// Package realnodes_test runs the pods of MyApps on real nodes.
package realnodes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/myapp"
	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/operators/myapp/internal/desired"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		CRDs: "../../config/crd", RBAC: "../../config/rbac", AddToScheme: v1.AddToScheme,
		AdmissionPolicies: "../../config/access/fence.yaml",
		Real:              &testkit.RealNodes{Ingress: true, Metrics: true},
	})
}

const (
	image   = "example/web:1"
	program = "github.com/homeostat-dev/homeostat/testkit/cmd/web"
	port    = 8080
	mount   = "/data"
)

// start returns a test with real nodes that have the image, and runs the operator.
func start(t *testing.T) *testkit.K {
	t.Helper()
	k := testkit.New(t)
	k.Timeout = 5 * time.Minute
	k.LoadPackage(image, program)
	k.Run(myapp.Operator)
	return k
}

// newMyApp returns a MyApp with a web server and a volume, which has a line for each start of a pod: see package web.
func newMyApp(t *testing.T) *v1.MyApp {
	t.Helper()
	app := &v1.MyApp{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1.MyAppSpec{
		Image: image, Ports: []v1.Port{{Name: "http", ContainerPort: port}},
		Storage: v1.Storage{Size: "256Mi", MountPath: mount},
		Env: []corev1.EnvVar{{Name: "POD_UID", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"},
		}}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(port)},
		}},
	}}
	template, err := json.Marshal(map[string]any{"spec": map[string]any{
		"terminationGracePeriodSeconds": 1,
		"securityContext":               map[string]any{"fsGroup": 65532},
		"containers": []any{
			map[string]any{"name": desired.Container, "args": []string{"-lock", mount + "/starts"}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	app.Spec.PodTemplate = &runtime.RawExtension{Raw: template}
	return app
}

// ready waits until the app is ready and has one pod, which is not the previous one, and returns it.
func ready(k *testkit.K, app *v1.MyApp, previous *corev1.Pod) (pod *corev1.Pod) {
	k.Wait("the pod", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := k.Client.List(ctx, pods, client.InNamespace(k.Namespace), client.MatchingLabels{"app": app.Name}); err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].UID == previous.UID {
			return fmt.Errorf("there are %d pods, or it is the previous one", len(pods.Items))
		}
		pod = &pods.Items[0]
		return nil
	})
	k.Eventually(pod, testkit.Ready())
	k.Eventually(app, testkit.Ready())
	return pod
}

// fetch returns a response of the server in a pod.
func fetch(t *testing.T, k *testkit.K, pod *corev1.Pod, path string) string {
	t.Helper()
	text, err := k.Fetch(pod, port, path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// expectStarts checks that the volume has had these pods, one at a time.
func expectStarts(t *testing.T, k *testkit.K, pods ...*corev1.Pod) {
	t.Helper()
	var want strings.Builder
	for _, pod := range pods {
		fmt.Fprintf(&want, "%s alone\n", pod.UID)
	}
	if diff := cmp.Diff(want.String(), fetch(t, k, pods[len(pods)-1], "/file"+mount+"/starts")); diff != "" {
		t.Errorf("pods of the volume (-want +got):\n%s", diff)
	}
}
