package desired_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/operators/myapp/internal/desired"
)

func app() *v1.MyApp {
	return &v1.MyApp{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "shop"},
		Spec: v1.MyAppSpec{
			Image: "nginx:1.21", Ports: []v1.Port{{Name: "http", ContainerPort: 80}, {Name: "metrics", ContainerPort: 90}},
			Storage: v1.Storage{
				Enabled: new(true), Size: "1Gi", MountPath: "/data",
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			},
		},
	}
}

func TestStrategy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		why        string
		strategy   v1.Strategy
		singleNode bool
		want       appsv1.DeploymentStrategyType
	}{
		"auto, one node":   {"the old pod would keep the volume", v1.StrategyAuto, true, appsv1.RecreateDeploymentStrategyType},
		"auto, many nodes": {"it has no downtime", v1.StrategyAuto, false, appsv1.RollingUpdateDeploymentStrategyType},
		"none, one node":   {"an older object has no strategy", "", true, appsv1.RecreateDeploymentStrategyType},
		"rolling":          {"the user asks for it", v1.StrategyRollingUpdate, true, appsv1.RollingUpdateDeploymentStrategyType},
		"recreate":         {"the user asks for it", v1.StrategyRecreate, false, appsv1.RecreateDeploymentStrategyType},
	} {
		o := app()
		o.Spec.Strategy = c.strategy
		set, err := desired.Deployment(o, "", c.singleNode)
		if err != nil || set.Spec.Strategy.Type != c.want {
			t.Errorf("%s: %v, %v, want %s, because %s", name, set.Spec.Strategy.Type, err, c.want, c.why)
		}
	}
}

// An invalid pod template is reported and not applied.
func TestInvalidPodTemplates(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"spec": {"contaners": []}}`:                       `unknown field "spec.contaners"`,
		`{"spec": {"nodeName": 3}}`:                         "cannot unmarshal number",
		`{"spec": {"containers": [{"image": "a"}]}}`:        "spec.podTemplate",
		`{"spec": {"containers": [{"$patch": "unknown"}]}}`: "spec.podTemplate",

		`{"spec": {"containers": [{"name": "a", "image": "NoSuch//image"}]}}`: `container a has image "NoSuch//image", which is`,
		`{"spec": {"volumes": [{"name": "a"}, {"name": "a"}]}}`:               "spec.podTemplate: spec.volumes has a twice",
		`{"spec": {"hostAliases": [{"ip": "::1"}, {"ip": "::1"}]}}`:           "spec.podTemplate: spec.hostAliases has ::1 twice",

		`{"spec": {"containers": [{"name": "a", "env": [{"name": "b"}, {"name": "b"}]}]}}`: "env of container a has b twice",

		`{"spec": {"containers": [{"name": "a", "ports": [
			{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]}]}}`: "ports of container a has 1/TCP twice",
	} {
		o := app()
		o.Spec.PodTemplate = &runtime.RawExtension{Raw: []byte(raw)}
		if _, err := desired.Deployment(o, "", false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
}

func TestServiceSelectsPods(t *testing.T) {
	t.Parallel()
	o := app()
	set, err := desired.Deployment(o, "a-data", true)
	if err != nil {
		t.Fatal(err)
	}
	service := desired.Service(o)
	if diff := cmp.Diff(set.Spec.Selector.MatchLabels, service.Spec.Selector); diff != "" {
		t.Errorf("selectors, -pods +service:\n%s", diff)
	}
	for i, p := range set.Spec.Template.Spec.Containers[0].Ports {
		if s := service.Spec.Ports[i]; s.TargetPort.StrVal != p.Name || s.Port != p.ContainerPort {
			t.Errorf("port %s of the pods, %v of the Service", p.Name, s)
		}
	}
	o.Spec.Service.Port = new(int32(8080))
	if got := desired.Service(o).Spec.Ports; got[0].Port != 8080 || got[1].Port != 90 {
		t.Errorf("the ports are %v", got)
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	balanced := desired.Service(app())
	balanced.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{}, {IP: "2001:db8::1"}}
	outside := v1.Ingress{Enabled: true, Host: "a.example", Path: "/shop"}
	secure := outside
	secure.TLSSecretName = "certificate"
	for name, c := range map[string]struct {
		ingress v1.Ingress
		service *corev1.Service
		want    string
	}{
		"nothing":       {v1.Ingress{}, nil, ""},
		"inside":        {v1.Ingress{}, desired.Service(app()), ""},
		"balanced":      {v1.Ingress{}, balanced, "http://[2001:db8::1]:80"},
		"ingress":       {outside, balanced, "http://a.example/shop"},
		"with TLS":      {secure, balanced, "https://a.example/shop"},
		"ingress is no": {v1.Ingress{Host: "a.example"}, nil, ""},
	} {
		o := app()
		o.Spec.Ingress = c.ingress
		if got := desired.URL(o, c.service); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
