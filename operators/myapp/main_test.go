package myapp_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/myapp"
	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		CRDs: "config/crd", RBAC: "config/rbac", AddToScheme: v1.AddToScheme, Workloads: true,
		AdmissionPolicies: "config/access/fence.yaml",
		NoUnusedRules:     true, AllowedUnusedRules: testkit.ProgramUnusedRules("myapps.mycompany.com"),
	})
}

// start runs the operator with its own permissions in the test's namespace.
func start(k *testkit.K, opts ...testkit.StartOption) *testkit.Instance {
	return k.Run(myapp.Operator, opts...)
}

// newMyApp returns the article's MyApp under another name.
func newMyApp(name string) *v1.MyApp {
	return &v1.MyApp{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.MyAppSpec{Image: "nginx:1.21"}}
}

// fullMyApp returns an app with all optional children.
func fullMyApp(name string) *v1.MyApp {
	app := newMyApp(name)
	app.Spec.Service.Enabled = true
	app.Spec.Ingress = v1.Ingress{Enabled: true, Host: name + ".example.com"}
	app.Spec.Storage.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	app.Spec.Autoscaling = &v1.Autoscaling{MinReplicas: 2, MaxReplicas: 3}
	return app
}

// sample reads one of config/samples, for the test's namespace.
func sample(t *testing.T, name string) *v1.MyApp {
	t.Helper()
	manifest, err := os.ReadFile("config/samples/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	app := &v1.MyApp{}
	if err := yaml.UnmarshalStrict(manifest, app); err != nil {
		t.Fatal(err)
	}
	app.Namespace = ""
	return app
}

func deployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// pods checks the number of ready pods in the status.
func pods(n int32) testkit.Check {
	return testkit.Match("readyReplicas", func(o *v1.MyApp) bool { return o.Status.ReadyReplicas == n })
}

func phase(want v1.Phase) testkit.Check {
	return testkit.Match("phase "+string(want), func(o *v1.MyApp) bool { return o.Status.Phase == want })
}

// child checks the status of one child.
func child(kind, name, reason string) testkit.Check {
	return testkit.Match(fmt.Sprintf("%s %s: %s", kind, name, reason), func(o *v1.MyApp) bool {
		for _, c := range o.Status.Resources {
			if c.Kind == kind && c.Name == name {
				return c.Reason == reason && c.Ready == (reason == conditions.Ready)
			}
		}
		return false
	})
}

func image(want string) testkit.Check {
	return testkit.Match("image "+want, func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Spec.Containers[0].Image == want
	})
}

func replicas(n int32) testkit.Check {
	return testkit.Match(fmt.Sprintf("%d replicas", n), func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == n })
}

// writes lists the writes except those of events.
func writes(op *testkit.Instance) []recorder.Request {
	var all []recorder.Request
	for _, r := range op.Recorder().Writes() {
		if r.Resource != "events" {
			all = append(all, r)
		}
	}
	return all
}

// waitIdle waits until the operator has sent nothing for a while.
func waitIdle(k *testkit.K, op *testkit.Instance) {
	const quietPeriod = 300 * time.Millisecond
	k.Wait("rest", func(ctx context.Context) error { return op.Recorder().WaitIdle(ctx, quietPeriod) })
}
