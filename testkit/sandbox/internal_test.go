package sandbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestWorthWatching(t *testing.T) {
	t.Parallel()
	for kind, want := range map[schema.GroupKind]bool{
		{Group: "apps", Kind: "Deployment"}:                true,
		{Group: "batch", Kind: "CronJob"}:                  true,
		{Kind: "Pod"}:                                      true,
		{Group: "example.com", Kind: "Widget"}:             true,
		{Kind: "ConfigMap"}:                                false,
		{Kind: "Namespace"}:                                false,
		{Group: "rbac.authorization.k8s.io", Kind: "Role"}: false,
	} {
		if got := worthWatching(kind); got != want {
			t.Errorf("%v: %t, want %t", kind, got, want)
		}
	}
}

func TestLocalize(t *testing.T) {
	t.Parallel()
	local := map[string]string{"bind": "127.0.0.1:1", "leader-elect": "false"}
	tests := map[string]struct {
		reason string
		args   []string
		want   []string
	}{
		"Absent":   {"the program may not define the flag", []string{"--x=1"}, []string{"--x=1"}},
		"Inline":   {"the value is replaced", []string{"--bind=:8080"}, []string{"--bind=127.0.0.1:1"}},
		"Separate": {"so is one of its own", []string{"--bind", ":8080", "y"}, []string{"--bind=127.0.0.1:1", "y"}},
		"OneDash":  {"Go's flags take one dash", []string{"-bind=:8080"}, []string{"--bind=127.0.0.1:1"}},
		"Switch":   {"a flag without a value", []string{"--leader-elect", "--x"}, []string{"--leader-elect=false", "--x"}},
		"Off":      {"a disabled endpoint stays disabled", []string{"--bind=0", "--bind", "0"}, []string{"--bind=0", "--bind=0"}},
		"Word":     {"it only looks like a flag's name", []string{"leader-elect"}, []string{"leader-elect"}},
	}
	for name, tt := range tests {
		if diff := cmp.Diff(tt.want, localize(tt.args, local)); diff != "" {
			t.Errorf("%s (-want +got), because %s:\n%s", name, tt.reason, diff)
		}
	}
}

func TestImageName(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"app": "app", "app:v1": "app", "team/app:v1": "app", "host:5000/team/app": "app", "host:5000/app:v1@sha256:12": "app",
		"app@sha256:12": "app", "host:5000/app-proxy:v1": "app-proxy", "": "",
	} {
		if got := imageName(image); got != want {
			t.Errorf("the name of %s is %s, want %s", image, got, want)
		}
	}
}

func TestLaunch(t *testing.T) {
	t.Parallel()
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	fromMap := func(name, key string, optional bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: named(name), Key: key, Optional: new(optional),
		}}
	}
	container := &corev1.Container{
		Command: []string{"/op", "run"}, Args: []string{"--metrics-bind-address=:8443", "$(A)", "$(B)", "$$(A)", "$(M_a)"},
		EnvFrom: []corev1.EnvFromSource{
			{Prefix: "M_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("map")}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("none"), Optional: new(true)}},
		},
		Env: []corev1.EnvVar{
			{Name: "A", Value: "a"},
			{Name: "C", Value: "$(A)c"},
			{Name: "FIELD", ValueFrom: field("some.field")},
			{Name: "OTHER", ValueFrom: field("other")},
			{Name: "KEY", ValueFrom: fromMap("map", "a", false)},
			{Name: "NO_KEY", ValueFrom: fromMap("map", "none", true)},
			{Name: "NO_MAP", ValueFrom: fromMap("none", "a", true)},
			{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: named("secret"), Key: "s",
			}}},
			{Name: "HEALTH_PROBE_BIND_ADDRESS", Value: "0"},
		},
	}
	from := sources{
		field: func(path string) (string, bool) { return "value", path == "some.field" },
		data: apiData(t.Context(), fake.NewClientBuilder().WithObjects(
			&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "map"},
				Data:       map[string]string{"a": "$(A)", "b": "2", "not=valid": ""},
			},
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "secret"}, Data: map[string][]byte{"s": []byte("hidden")},
			},
		).Build(), "ns"),
	}
	l, err := newLaunch(container, []string{"PATH=/bin"}, map[string]string{"kubeconfig": "/k"}, from)
	if err != nil {
		t.Fatal(err)
	}
	want := launch{
		args: []string{"run", "--metrics-bind-address=" + l.metrics, "a", "$(B)", "$(A)", "$(A)"},
		env: []string{
			"PATH=/bin", "A=a", "C=ac", "FIELD=value", "HEALTH_PROBE_BIND_ADDRESS=0", "KEY=$(A)", "M_a=$(A)", "M_b=2",
			"SECRET=hidden", "KUBECONFIG=/k", "METRICS_BIND_ADDRESS=" + l.metrics,
		},
		probe: l.probe, metrics: l.metrics, unknown: []string{"OTHER"},
	}
	slices.Sort(l.env[len(l.env)-2:])
	if diff := cmp.Diff(want, l, cmp.AllowUnexported(launch{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, source := range map[string]*corev1.EnvVarSource{
		`configmaps "none" not found`:             fromMap("none", "a", false),
		"ConfigMap or Secret map has no key none": fromMap("map", "none", false),
	} {
		container.Env = []corev1.EnvVar{{Name: "MISSING", ValueFrom: source}}
		if _, err := newLaunch(container, nil, nil, from); err == nil || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), "variable MISSING") {
			t.Errorf("error %v, want %q", err, name)
		}
	}
}

// An image runs the program that PodsOptions.Program returns for it, or else the program of the project.
func TestImageProgram(t *testing.T) {
	t.Parallel()
	wrong := errors.New("not now")
	p := &PodRunner{ctx: t.Context(), opts: PodsOptions{Program: func(_ context.Context, image string) (string, error) {
		switch image {
		case "widget:v1":
			return "/former/widget", nil
		case "widget:v2":
			return "", wrong
		}
		return "", nil
	}}}
	nothing := &Project{Name: "widget", Dir: t.TempDir(), Package: "./cmd"}
	if file, err := p.program(nothing, "widget:v1"); file != "/former/widget" || err != nil {
		t.Errorf("a former version runs %q, %v", file, err)
	}
	if file, err := p.program(nothing, "widget:v2"); file != "" || !errors.Is(err, wrong) {
		t.Errorf("an unavailable version runs %q, %v", file, err)
	}
	if file, err := p.program(nothing, "widget:v3"); err == nil || !strings.Contains(err.Error(), "building operator widget") {
		t.Errorf("without a name, %q runs, %v; want the project to be built", file, err)
	}
}
