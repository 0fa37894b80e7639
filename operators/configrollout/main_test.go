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
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		RBAC: "config/rbac", Workloads: true, NoUnusedRules: true,
		Unexercised: map[string]string{
			"create subjectaccessreviews.authorization.k8s.io": "metrics, which no test serves: what may a client do",
			"create tokenreviews.authentication.k8s.io":        "metrics, which no test serves: who is a client",
			"patch events":               "an event that repeats itself within minutes is counted up",
			"patch events.events.k8s.io": "an event that repeats itself within minutes is counted up",
		},
	})
}

const prefix = "rollout.homeostat.dev/"

// quiet is the quiet period of workloads in tests that say nothing else.
const quiet = 300 * time.Millisecond

// newOperator returns the operator with a short quiet period and, if given, other options.
func newOperator(t *testing.T, change ...func(*configrollout.Options)) *sdk.Custom {
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

// named is for looking at a Deployment.
func named(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// template is that of pods that use a ConfigMap as a whole.
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

// deployment takes part and uses a ConfigMap as a whole. More annotations are given without the prefix.
func deployment(name, configMap string, annotations ...string) *appsv1.Deployment {
	d := named(name)
	d.Annotations = with(annotations)
	d.Spec = appsv1.DeploymentSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Template: template(name, configMap),
	}
	return d
}

func statefulSet(name, configMap string, annotations ...string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: with(annotations)},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: template(name, configMap),
		},
	}
}

func daemonSet(name, configMap string, annotations ...string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: with(annotations)},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name, configMap),
		},
	}
}

func with(annotations []string) map[string]string {
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

// known is the digest that the operator has brought the workload to.
func known(o client.Object) string { return o.GetAnnotations()[prefix+"observed-digest"] }

// adopted is met by a workload that the operator knows and that it did not roll.
func adopted() testkit.Check {
	return testkit.Match("adopted", func(o client.Object) bool { return known(o) != "" && digestOf(o) == "" })
}

// rolledFrom is met by a workload whose template has another digest than that, and for which nothing is pending.
func rolledFrom(before string) testkit.Check {
	return testkit.Match("rolled", func(o client.Object) bool {
		return digestOf(o) != "" && digestOf(o) != before && digestOf(o) == known(o) && !pending(o)
	})
}

// pending reports whether a rollout is.
func pending(o client.Object) bool { return o.GetAnnotations()[prefix+"pending-digest"] != "" }

// isPending is met while a rollout is.
func isPending() testkit.Check { return testkit.Match("pending", pending) }

// state is met when the operator reports that.
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

func result(want string) testkit.Check {
	return testkit.Match("last rollout "+want, func(o client.Object) bool {
		var r rollout
		return json.Unmarshal([]byte(o.GetAnnotations()[prefix+"last-rollout"]), &r) == nil && r.Result == want
	})
}

// adopt makes workloads and waits until the operator knows them.
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

// replicaSets is how many templates a Deployment has had.
func replicaSets(t *testing.T, k *testkit.K, name string) int {
	t.Helper()
	list := &appsv1.ReplicaSetList{}
	err := k.Client.List(k.Context(), list, client.InNamespace(k.Namespace), client.MatchingLabels{"app": name})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// event waits for an event about an object, and returns its note.
func event(k *testkit.K, o client.Object, reason string) (note string) {
	k.Wait(fmt.Sprintf("event %s about %s", reason, o.GetName()), func(context.Context) error {
		list := &eventsv1.EventList{}
		if err := k.Client.List(k.Context(), list, client.InNamespace(k.Namespace)); err != nil {
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

// writes lists the requests that change something, events apart.
func writes(op *testkit.Instance) []recorder.Request {
	var all []recorder.Request
	for _, r := range op.Recorder().Writes() {
		if r.Resource != "events" {
			all = append(all, r)
		}
	}
	return all
}

// rest waits until the operator has sent nothing for longer than its quiet period.
func rest(k *testkit.K, op *testkit.Instance) {
	const still = 2*quiet + 100*time.Millisecond
	k.Wait("rest", func(ctx context.Context) error {
		before := len(op.Requests())
		select {
		case <-ctx.Done():
		case <-time.After(still):
		}
		if n := len(op.Requests()) - before; n > 0 {
			return fmt.Errorf("%d requests within %v", n, still)
		}
		return nil
	})
}

// optional makes all keys of a ConfigMap variables, if there is one.
func optional(name string) []corev1.EnvFromSource {
	return []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: new(true),
	}}}
}
