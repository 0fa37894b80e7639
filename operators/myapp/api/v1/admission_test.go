package v1_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{CRDs: "../../config/crd", AddToScheme: v1.AddToScheme})
}

const (
	badName     = "it becomes the label app of the pods, so choose one of at most 63 characters"
	badImage    = "an image reference contains no white space: remove it from spec.image, for example nginx:1.21"
	noReference = "no container image can have that name, and no node would start it"
	badPath     = "may have letters, digits and the characters - / _ . ~ % ! & * + , : = @ only"
	singleNode  = "a ReadWriteOnce volume cannot back several replicas"
	noService   = "metadata.name does not fit a Service, which has the same name"
)

func TestInvalidObjectIsRejected(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for why, tc := range map[string]struct{ name, spec, field, want string }{
		"name too long":          {strings.Repeat("a", 64), "{}", "metadata", badName},
		"image with a space":     {"a", "{image: nginx latest}", "spec.image", badImage},
		"image of two slashes":   {"a", "{image: NoSuch//image}", "spec.image", noReference},
		"image with capitals":    {"a", "{image: Nginx}", "spec.image", noReference},
		"image with half a sum":  {"a", "{image: nginx@sha256:0123}", "spec.image", noReference},
		"empty image":            {"a", `{image: ""}`, "spec.image", "should be at least 1 chars long"},
		"negative replicas":      {"a", "{replicas: -1}", "spec.replicas", "should be greater than or equal to 0"},
		"many replicas":          {"a", "{replicas: 101}", "spec.replicas", "should be less than or equal to 100"},
		"replicas of one volume": {"a", "{replicas: 2}", "spec.replicas", singleNode},
		"scaling of one volume":  {"a", "{autoscaling: {maxReplicas: 2}}", "spec.replicas", singleNode},
		"one volume, one pod": {
			"a", "{replicas: 2, storage: {accessModes: [ReadWriteOncePod]}}", "spec.replicas", singleNode,
		},
		"replicas and scaling": {
			"a", "{replicas: 1, autoscaling: {maxReplicas: 1}}", "spec.replicas", "contradict each other: remove one",
		},
		"scaling upside down": {
			"a", "{autoscaling: {minReplicas: 3, maxReplicas: 2}}", "spec.autoscaling.maxReplicas", "less than minReplicas",
		},
		"size of nothing": {"a", `{storage: {size: "0"}}`, "spec.storage.size", "greater than 0, for example 1Gi"},
		"size that is no size": {
			"a", "{storage: {size: large}}", "spec.storage.size", "greater than 0, for example 1Gi",
		},
		"unknown access mode": {
			"a", "{storage: {accessModes: [Any]}}", "spec.storage.accessModes[0]", "Unsupported value",
		},
		"relative path": {
			"a", "{storage: {mountPath: data}}", "spec.storage.mountPath", "must be an absolute path",
		},
		"ingress without host": {
			"a", "{service: {enabled: true}, ingress: {enabled: true}}", "spec.ingress.host", "set spec.ingress.host",
		},
		"ingress host with capitals": {
			"a", "{service: {enabled: true}, ingress: {enabled: true, host: Foo_Bar}}", "spec.ingress.host", "must be a DNS name",
		},
		"ingress without service": {
			"a", "{ingress: {enabled: true, host: a.example}}", "spec.ingress.enabled", "set spec.service.enabled",
		},
		"service without port": {
			"a", "{ports: [], service: {enabled: true}}", "spec.service.enabled", "a Service needs a port to lead to: name one",
		},
		"service port of another": {
			"a", "{ports: [{name: a, containerPort: 8080}, {name: b, containerPort: 80}], service: {enabled: true, port: 80}}",
			"spec.service.port", "the number of another port than the first",
		},
		"one port twice": {
			"a", "{ports: [{name: a, containerPort: 1}, {name: b, containerPort: 1}]}", "spec.ports", "give each item of spec.ports",
		},
		"service with a dot":   {"a.b", "{service: {enabled: true}}", "spec.service.enabled", noService},
		"service with a digit": {"1a", "{service: {enabled: true}}", "spec.service.enabled", noService},
		"port 0": {
			"a", "{ports: [{name: a, containerPort: 0}]}", "spec.ports[0].containerPort", "should be greater than or equal to 1",
		},
		"port name of digits": {
			"a", `{ports: [{name: "80", containerPort: 80}]}`, "spec.ports[0].name", "has at least one letter",
		},
		"one port name twice": {
			"a", "{ports: [{name: a, containerPort: 1}, {name: a, containerPort: 2}]}", "spec.ports[1]", "Duplicate value",
		},
		"unknown strategy": {"a", "{strategy: Any}", "spec.strategy", "Unsupported value"},
		"unknown deletion": {"a", "{deletionPolicy: Any}", "spec.deletionPolicy", "Unsupported value"},
		"template of text": {"a", "{podTemplate: text}", "spec.podTemplate", "must be of type object"},
		"path with a line end": {
			"a", `{ingress: {path: "/x\n/y"}}`, "spec.ingress.path", badPath,
		},
		"path of a configuration": {
			"a", `{ingress: {path: "/x{} location /evil"}}`, "spec.ingress.path", badPath,
		},
		"path with a quote":     {"a", `{ingress: {path: '/x"'}}`, "spec.ingress.path", badPath},
		"path with a semicolon": {"a", `{ingress: {path: "/x;"}}`, "spec.ingress.path", badPath},
		"path with a variable":  {"a", `{ingress: {path: "/$x"}}`, "spec.ingress.path", badPath},
		"ingress of UDP": {
			"a", "{ports: [{name: dns, containerPort: 53, protocol: UDP}], service: {enabled: true}, " +
				"ingress: {enabled: true, host: a.example}}", "spec.ports", "HTTP needs TCP: put a port with protocol TCP first",
		},
		"path of no URL": {"a", "{ingress: {path: a}}", "spec.ingress.path", "must begin with a slash"},
		"no claim to mount": {
			"a", `{storage: {existingClaim: ""}}`, "spec.storage.existingClaim", "should be at least 1 chars long",
		},
	} {
		got := k.Refused(object(t, tc.name, tc.spec))
		if !strings.Contains(got, tc.field+": ") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: the message is\n%s\nwant %s and\n%s", why, got, tc.field, tc.want)
		}
	}
}

// The message of an immutable field names the alternative.
func TestInvalidUpdateIsRejected(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for why, tc := range map[string]struct{ before, after, want string }{
		"class": {
			"{storage: {storageClassName: a}}", "{storage: {storageClassName: b}}", "the class of a claim cannot change",
		},
		"class appears": {"{}", "{storage: {storageClassName: b}}", "the class of a claim cannot change"},
		"access modes": {
			"{}", "{storage: {accessModes: [ReadWriteMany]}}", "the access modes of a claim cannot change",
		},
		"claim":         {"{storage: {existingClaim: a}}", "{storage: {existingClaim: b}}", "an app keeps its volume"},
		"claim appears": {"{}", "{storage: {existingClaim: b}}", "an app keeps its volume"},
		"below the granted": {
			"{storage: {size: 3Gi}}", "{storage: {size: 1Gi}}", "cannot become smaller than what was granted",
		},
	} {
		name := strings.ReplaceAll(why, " ", "-")
		k.Apply(object(t, name, tc.before))
		app := &v1.MyApp{}
		app.Name = name
		k.UpdateStatus(app, func() { app.Status.Volume = &v1.VolumeStatus{Name: "data", Requested: "2Gi"} })
		changed := object(t, name, tc.after)
		changed.SetNamespace(app.Namespace)
		changed.SetResourceVersion(app.ResourceVersion)
		if err := k.Client.Update(k.Context(), changed); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: the message is\n%v\nwant\n%s", why, err, tc.want)
		}
	}
	// An expansion that was not granted can be undone, and a granted one stays.
	k.Apply(object(t, "below-the-granted", "{storage: {size: 2Gi}}"))
}

func TestValidObjectIsAccepted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for name, spec := range map[string]string{
		strings.Repeat("a", 63): "{}",
		"0.a":                   "{image: registry.example:5000/a/b:1.0@sha256:" + strings.Repeat("0a", 32) + "}",
		"none":                  "{replicas: 0}",
		"shared":                "{replicas: 100, storage: {accessModes: [ReadWriteMany]}}",
		"stateless":             "{replicas: 2, storage: {enabled: false}}",
		"size":                  "{storage: {size: 500M}}",
		"no-ports":              "{ports: []}",
		"local":                 "{image: localhost/a__b-c.d}",
		"ipv6":                  `{image: "[2001:db8::1]:5000/a:V1_0"}`,
		"path":                  `{ingress: {path: "/a-b/%7Bc%7D/~d_e.f"}}`,
		"both-protocols": "{service: {enabled: true, port: 53}, " +
			"ports: [{name: a, containerPort: 53}, {name: b, containerPort: 53, protocol: UDP}]}",
	} {
		k.Apply(object(t, name, spec))
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Apply(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion.String(), "kind": "MyApp", "metadata": map[string]any{"name": "a"},
	}})
	got := &v1.MyApp{}
	got.Name = "a"
	k.Get(got)
	want := v1.MyAppSpec{
		Image: "nginx:latest", Ports: []v1.Port{{Name: "http", ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
		Storage: v1.Storage{
			Enabled: new(true), Size: "1Gi", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			MountPath: "/usr/share/nginx/html",
		},
		Service: v1.Service{Type: corev1.ServiceTypeClusterIP}, Ingress: v1.Ingress{Path: "/"},
		Strategy: v1.StrategyAuto, DeletionPolicy: v1.DeletionRetainData,
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("the defaults differ from the documented ones (-want +got):\n%s", diff)
	}
}

func TestSamplesAreAccepted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for _, name := range []string{"example", "full"} {
		raw, err := os.ReadFile("../../config/samples/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		sample := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &sample.Object); err != nil {
			t.Fatal(err)
		}
		sample.SetNamespace("")
		k.Apply(sample)
	}
	// It has every field.
	full := &v1.MyApp{}
	full.Name = "shop"
	k.Get(full)
	spec := fields(t, full.Spec)
	for _, field := range []string{
		"image", "ports", "env", "envFrom", "resources", "livenessProbe", "readinessProbe", "imagePullSecrets",
		"serviceAccountName", "podTemplate", "storage", "service", "ingress", "autoscaling", "strategy", "deletionPolicy",
	} {
		if spec[field] == nil {
			t.Errorf("the full sample has no %s", field)
		}
	}
}

func fields(t *testing.T, v any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// object returns a MyApp with a specification in YAML.
func object(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	var fields any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion.String(), "kind": "MyApp",
		"metadata": map[string]any{"name": name}, "spec": fields,
	}}
}
