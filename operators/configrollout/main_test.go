package configrollout_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/sdk/program"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		RBAC: "config/rbac", Workloads: true, NoUnusedRules: true, AllowedUnusedRules: testkit.ProgramUnusedRules(),
		AdmissionPolicies: "config/access/fence.yaml",
	})
}

const prefix = "rollout.homeostat.dev/"

// quiet is the default quiet period in tests.
const quiet = 300 * time.Millisecond

// newOperator returns the operator with a short quiet period and changed options.
func newOperator(t *testing.T, change ...func(*configrollout.Options)) *program.CustomController {
	t.Helper()
	o := configrollout.DefaultOptions()
	o.QuietPeriod = quiet
	for _, f := range change {
		f(&o)
	}
	op, err := configrollout.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func start(t *testing.T, k *testkit.K, change ...func(*configrollout.Options)) *testkit.Instance {
	t.Helper()
	return k.Run(newOperator(t, change...))
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{}}
	for i := 0; i < len(data); i += 2 {
		cm.Data[data[i]] = data[i+1]
	}
	return cm
}

// deploymentRef returns an empty Deployment of that name.
func deploymentRef(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// template returns the template of pods that use a ConfigMap as a whole.
func template(app, configMap string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{
				Name: "c", Image: "nginx:1.21", VolumeMounts: []corev1.VolumeMount{{Name: "conf", MountPath: "/etc/conf"}},
			}},
			Volumes: []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}},
			}}},
		},
	}
}

// deployment returns an enabled Deployment that uses a ConfigMap as a whole. Annotations are given without the prefix.
func deployment(name, configMap string, annotations ...string) *appsv1.Deployment {
	d := deploymentRef(name)
	d.Annotations = enabledAnnotations(annotations)
	d.Spec = appsv1.DeploymentSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Template: template(name, configMap),
	}
	return d
}

func statefulSet(name, configMap string, annotations ...string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: enabledAnnotations(annotations)},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: template(name, configMap),
		},
	}
}

func daemonSet(name, configMap string, annotations ...string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: enabledAnnotations(annotations)},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name, configMap),
		},
	}
}

func enabledAnnotations(annotations []string) map[string]string {
	all := map[string]string{prefix + "enabled": "true"}
	for i := 0; i < len(annotations); i += 2 {
		all[prefix+annotations[i]] = annotations[i+1]
	}
	return all
}

func podTemplate(o client.Object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	default:
		panic(fmt.Sprintf("%T is no workload", o))
	}
}

func digestOf(o client.Object) string { return podTemplate(o).Annotations[prefix+"config-digest"] }

// observedDigest returns the digest that the workload was last brought to.
func observedDigest(o client.Object) string { return o.GetAnnotations()[prefix+"observed-digest"] }

// adopted checks that the workload has a record and was not rolled.
func adopted() testkit.Check {
	return testkit.Match("adopted", func(o client.Object) bool { return observedDigest(o) != "" && digestOf(o) == "" })
}

// rolledFrom checks that the template has another digest than before, and that no rollout is pending.
func rolledFrom(before string) testkit.Check {
	return testkit.Match("rolled", func(o client.Object) bool {
		return digestOf(o) != "" && digestOf(o) != before && digestOf(o) == observedDigest(o) && !pending(o)
	})
}

// pending reports whether a rollout is pending.
func pending(o client.Object) bool { return o.GetAnnotations()[prefix+"pending-digest"] != "" }

// isPending checks that a rollout is pending.
func isPending() testkit.Check { return testkit.Match("pending", pending) }

// state checks that the state annotation contains part.
func state(part string) testkit.Check {
	return testkit.Match("state "+part, func(o client.Object) bool {
		s := o.GetAnnotations()[prefix+"state"]
		return part == "" && s == "" || part != "" && strings.Contains(s, part)
	})
}

// rollout is the annotation last-rollout.
type rollout struct {
	Time       time.Time
	Sources    []string
	FromDigest string
	ToDigest   string
	Result     string
	Reverts    int
}

func lastRollout(t *testing.T, o client.Object) rollout {
	t.Helper()
	var r rollout
	text := o.GetAnnotations()[prefix+"last-rollout"]
	if err := json.Unmarshal([]byte(text), &r); err != nil || len(text) > 1024 {
		t.Fatalf("last-rollout is %q: %v", text, err)
	}
	return r
}

func rolledAfter(last time.Time) testkit.Check {
	return testkit.Match("rolled after "+last.String(), func(o client.Object) bool {
		var r rollout
		return json.Unmarshal([]byte(o.GetAnnotations()[prefix+"last-rollout"]), &r) == nil && r.Time.After(last)
	})
}

func result(want string) testkit.Check {
	return testkit.Match("last rollout "+want, func(o client.Object) bool {
		var r rollout
		return json.Unmarshal([]byte(o.GetAnnotations()[prefix+"last-rollout"]), &r) == nil && r.Result == want
	})
}

// adopt creates workloads and waits until the operator has recorded them.
func adopt(k *testkit.K, workloads ...client.Object) {
	for _, o := range workloads {
		k.Apply(o)
	}
	for _, o := range workloads {
		k.Eventually(o, adopted(), testkit.Ready())
	}
}

// change sets keys of a ConfigMap.
func change(k *testkit.K, name string, data ...string) {
	cm := configMap(name)
	k.Update(cm, func() { maps.Copy(cm.Data, configMap("", data...).Data) })
}

// replicaSets returns the number of templates that a Deployment has had.
func replicaSets(t *testing.T, k *testkit.K, name string) int {
	t.Helper()
	list := &appsv1.ReplicaSetList{}
	err := k.Client.List(k.Context(), list, client.InNamespace(k.Namespace), client.MatchingLabels{"app": name})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// waitEvent waits for an event about an object and returns its note.
func waitEvent(k *testkit.K, o client.Object, reason string) (note string) {
	k.Wait(fmt.Sprintf("event %s about %s", reason, o.GetName()), func(context.Context) error {
		list := &eventsv1.EventList{}
		if err := k.Client.List(k.Context(), list, client.InNamespace(o.GetNamespace())); err != nil {
			return err
		}
		var reasons []string
		for _, e := range list.Items {
			if e.Regarding.Name != o.GetName() || e.ReportingController == "" {
				continue
			}
			if e.Reason == reason {
				note = e.Note
				return nil
			}
			reasons = append(reasons, e.Reason)
		}
		return fmt.Errorf("there are %v", reasons)
	})
	return note
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

// waitIdle waits until the operator has sent nothing for longer than its quiet period.
func waitIdle(k *testkit.K, op *testkit.Instance) {
	const still = 2*quiet + 100*time.Millisecond
	k.Wait("rest", func(ctx context.Context) error { return op.Recorder().WaitIdle(ctx, still) })
}

// optional uses all keys of an optional ConfigMap as variables.
func optional(name string) []corev1.EnvFromSource {
	return []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: new(true),
	}}}
}
