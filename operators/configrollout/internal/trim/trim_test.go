package trim_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/trim"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/window"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// size returns the size of an object after trimming, as JSON.
func size(t *testing.T, o any) int {
	t.Helper()
	trimmed, err := trim.Object(o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(trimmed)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

var large = strings.Repeat("x", 250_000)

// Metadata costs its name, UID and version.
func TestLargeMetadata(t *testing.T) {
	t.Parallel()
	cm := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "a", UID: "u", ResourceVersion: "7",
		Labels:      map[string]string{"l": "1", annotation.DefaultLabel: "enabled"},
		Annotations: map[string]string{"example.com/a": large, annotation.Ignore: large}, Finalizers: []string{large},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: large}}, OwnerReferences: []metav1.OwnerReference{{Name: large}},
	}}
	if n := size(t, cm); n > 250 {
		t.Errorf("it has %d bytes", n)
	}
	want := metav1.ObjectMeta{
		Namespace: "n", Name: "a", UID: "u", ResourceVersion: "7", Labels: map[string]string{annotation.DefaultLabel: "enabled"},
	}
	if diff := cmp.Diff(want, cm.ObjectMeta); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A workload costs its references and the annotations of the operator, and nothing else.
func TestLargeWorkloads(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 5000 {
		many[fmt.Sprintf("%sa%d", annotation.Prefix, i)] = "x"
	}
	lists := map[string]string{}
	for _, name := range []string{
		annotation.ConfigMaps, annotation.Secrets, annotation.Ignore, annotation.HotReload, annotation.Window, annotation.State,
		annotation.ObservedSources, annotation.LastRollout, annotation.ObservedDigest,
	} {
		lists[name] = large
	}
	template := func(change func(*corev1.Container)) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = []corev1.Container{{}}
			change(&d.Spec.Template.Spec.Containers[0])
		}
	}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		limit  int
	}{
		"annotations":          {func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": large} }, 1000},
		"unknown annotations":  {func(d *appsv1.Deployment) { d.Annotations = many }, 1500},
		"annotations of ours":  {func(d *appsv1.Deployment) { d.Annotations = lists }, 40_000},
		"labels":               {func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": large} }, 1000},
		"template annotations": {func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"a": large} }, 1000},
		"a digest": {func(d *appsv1.Deployment) {
			d.Spec.Template.Annotations = map[string]string{annotation.Digest: large}
		}, 1000},
		"command":                {template(func(c *corev1.Container) { c.Command = []string{large} }), 1000},
		"variables":              {template(func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Value: large}} }), 1000},
		"10,000 used ConfigMaps": {template(useMany), 1000},
		"a condition's message":  {func(d *appsv1.Deployment) { d.Status.Conditions = condition(large) }, 1000},
		"the selector": {func(d *appsv1.Deployment) {
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: many}
		}, 1000},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}
		test.change(d)
		if n := size(t, d); n > test.limit {
			t.Errorf("%s: it has %d bytes, want at most %d", name, n, test.limit)
		}
	}
}

func useMany(c *corev1.Container) {
	for i := range 10_000 {
		c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: strconv.Itoa(i)},
		}})
	}
}

func condition(message string) []appsv1.DeploymentCondition {
	return []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Message: message},
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, LastUpdateTime: metav1.Unix(1e9, 0), Message: message},
	}
}

// view is all that the operator reads of a workload.
type view struct {
	Settings  annotation.Settings
	Invalid   []string
	Record    annotation.Record
	Refs      []reference.Ref
	Hot       []reference.Ref
	Status    workload.Status
	Digest    string
	Sum       string
	Oversized bool
}

func viewOf(o client.Object) view {
	settings, invalid := annotation.Parse(o.GetAnnotations(), time.Second)
	v := view{
		Settings: settings, Record: annotation.ReadRecord(o.GetAnnotations()), Digest: workload.Digest(o),
		Sum: workload.TemplateSum(o), Refs: reference.Collect(workload.Template(o), reference.Options{}),
		Hot: reference.Collect(workload.Template(o), reference.Options{
			HotReload: []string{"volume", "key"}, Ignore: []string{"sub"},
		}),
	}
	for _, i := range invalid {
		v.Invalid = append(v.Invalid, i.Name+i.Err.Error())
	}
	v.Status = workload.StatusOf(o, v.Record.Last)
	v.Oversized = workload.Oversized(o)
	return v
}

// The operator reads the same from a trimmed workload.
func TestSameView(t *testing.T) {
	t.Parallel()
	meta := metav1.ObjectMeta{Namespace: "n", Name: "a", Generation: 3, Annotations: map[string]string{
		annotation.Enabled: "true", annotation.ConfigMaps: "a,b", annotation.Window: "0 22 * * *;2h", annotation.DryRun: large,
		annotation.Prefix + "unknown": "x", "example.com/a": "b", annotation.ObservedDigest: "sha256:aa",
		annotation.ObservedSources: "1,2=3", annotation.State: large,
		annotation.LastRollout: `{"time":"2026-11-23T00:00:00Z","sources":["ConfigMap/a"],"toDigest":"d"}`,
	}}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"l": "1"}, Annotations: map[string]string{annotation.Digest: "d", "a": "b"},
		},
		Spec: podSpec(),
	}
	update := appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	for _, o := range []client.Object{
		&appsv1.Deployment{
			ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(2)), Template: template, Paused: true, ProgressDeadlineSeconds: new(int32(60)),
			},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 3, UpdatedReplicas: 1, Replicas: 2, Conditions: condition("m")},
		},
		&appsv1.StatefulSet{
			ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)), Template: template},
			Status: appsv1.StatefulSetStatus{ObservedGeneration: 3, UpdatedReplicas: 1, Replicas: 2},
		},
		&appsv1.DaemonSet{
			ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template, UpdateStrategy: update},
			Status: appsv1.DaemonSetStatus{ObservedGeneration: 3, UpdatedNumberScheduled: 1, DesiredNumberScheduled: 2},
		},
	} {
		before := viewOf(o)
		if _, err := trim.Object(o); err != nil {
			t.Fatal(err)
		}
		before.Record.State = "" // too long
		windows := cmp.Comparer(func(a, b *window.Window) bool { return (a == nil) == (b == nil) })
		if diff := cmp.Diff(before, viewOf(o), windows); diff != "" {
			t.Errorf("%T, -full +trimmed:\n%s", o, diff)
		}
		if len(before.Refs) < 6 || before.Sum == "" {
			t.Errorf("%T has only %v, sum %q", o, before.Refs, before.Sum)
		}
	}
}

// A user cannot write the annotations of a trimmed workload.
func TestForgedTemplateSum(t *testing.T) {
	t.Parallel()
	d := &appsv1.Deployment{}
	d.Spec.Template.Annotations = map[string]string{
		annotation.Prefix + "template-sum": "forged", annotation.Prefix + "oversized": "true",
	}
	d.Spec.Template.Spec = podSpec()
	want := viewOf(d)
	for range 2 { // an informer may trim an object again
		if _, err := trim.Object(d); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, viewOf(d)); diff != "" || want.Sum == "forged" || want.Oversized {
			t.Errorf("-full +trimmed:\n%s", diff)
		}
	}
}

func podSpec() corev1.PodSpec {
	name := func(n string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: n} }
	volume := func(n string, source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: n, VolumeSource: source}
	}
	configMap := func(n string) corev1.Volume {
		return volume(n, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name(n)}})
	}
	secret := &corev1.SecretProjection{
		LocalObjectReference: name("projected"), Items: []corev1.KeyToPath{{Key: "k", Path: "p"}},
	}
	return corev1.PodSpec{
		InitContainers: []corev1.Container{{
			Name: "init", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: name("init")}}},
		}},
		Containers: []corev1.Container{{
			Name: "c", Image: "nginx", Args: []string{"a"},
			Env: []corev1.EnvVar{
				{Name: "A", Value: "b"},
				{Name: "B", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				{Name: "C", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
					LocalObjectReference: name("key"), Key: "k", Optional: new(true),
				}}},
			},
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: name("env")}}},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "volume", MountPath: "/a"},
				{Name: "sub", MountPath: "/b", SubPath: "k"},
				{Name: "empty", MountPath: "/c"},
				{Name: "projected", MountPath: "/d"},
				{Name: "expr", MountPath: "/e", SubPathExpr: "$(B)"},
			},
		}},
		Volumes: []corev1.Volume{
			configMap("volume"), configMap("sub"),
			volume("expr", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "expr"}}),
			volume("empty", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
			volume("projected", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{}}, {Secret: secret}},
			}}),
		},
	}
}
