package myapp_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/myapp"
	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// podDrifts are changes of the pod template by another client that decide what runs and with which rights, as strategic
// merge patches of the pod's specification.
var podDrifts = map[string]string{
	"host-network":      `{"hostNetwork": true}`,
	"host-pid":          `{"hostPID": true}`,
	"host-ipc":          `{"hostIPC": true}`,
	"host-users":        `{"hostUsers": false}`,
	"shared-processes":  `{"shareProcessNamespace": true}`,
	"service-account":   `{"serviceAccountName": "other"}`,
	"token":             `{"automountServiceAccountToken": true}`,
	"pod-context":       `{"securityContext": {"runAsUser": 0}}`,
	"node":              `{"nodeName": "node-1"}`,
	"runtime-class":     `{"runtimeClassName": "other"}`,
	"hosts":             `{"hostAliases": [{"ip": "203.0.113.9", "hostnames": ["shop"]}]}`,
	"dns":               `{"dnsPolicy": "None", "dnsConfig": {"nameservers": ["203.0.113.9"]}}`,
	"sidecar":           `{"containers": [{"name": "evil", "image": "evil"}]}`,
	"init":              `{"initContainers": [{"name": "evil", "image": "evil"}]}`,
	"host-path":         `{"volumes": [{"name": "host", "hostPath": {"path": "/"}}], "containers": [` + mount + `]}`,
	"privileged":        `{"containers": [{"name": "app-container", "securityContext": {"privileged": true}}]}`,
	"capabilities":      `{"containers": [{"name": "app-container", "securityContext": {"capabilities": {"add": ["KILL"]}}}]}`,
	"command":           `{"containers": [{"name": "app-container", "command": ["sleep"]}]}`,
	"args":              `{"containers": [{"name": "app-container", "args": ["--evil"]}]}`,
	"env":               `{"containers": [{"name": "app-container", "env": [{"name": "LD_PRELOAD", "value": "/evil.so"}]}]}`,
	"env-from":          `{"containers": [{"name": "app-container", "envFrom": [{"secretRef": {"name": "other"}}]}]}`,
	"hook":              `{"containers": [{"name": "app-container", "lifecycle": {"preStop": {"exec": {"command": ["a"]}}}}]}`,
	"probe":             `{"containers": [{"name": "app-container", "livenessProbe": {"exec": {"command": ["a"]}}}]}`,
	"host-port":         `{"containers": [{"name": "app-container", "ports": [{"containerPort": 80, "hostPort": 80}]}]}`,
	"port":              `{"containers": [{"name": "app-container", "ports": [{"containerPort": 81, "hostPort": 81}]}]}`,
	"other-container":   `{"containers": [{"$patch": "delete", "name": "app-container"}, {"name": "evil", "image": "evil"}]}`,
	"working-directory": `{"containers": [{"name": "app-container", "workingDir": "/evil"}]}`,
}

const mount = `{"name": "app-container", "volumeMounts": [{"name": "host", "mountPath": "/host"}]}`

// Changes of another client that decide what runs in the pods and with which rights are undone, although the operator does
// not set these fields.
func TestForeignPodFieldsAreRemoved(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	app := func(name string) *v1.MyApp {
		o := newMyApp(name)
		o.Spec.Storage.Enabled = new(false)
		o.Spec.Replicas = new(int32(0)) // no pods are needed
		return o
	}
	names := slices.Sorted(maps.Keys(podDrifts))
	want := map[string]appsv1.DeploymentSpec{}
	for _, name := range names {
		k.Apply(app(name))
	}
	for _, name := range names {
		k.Eventually(app(name), testkit.Ready())
		set := deployment(name)
		k.Get(set)
		want[name] = set.Spec
	}
	for _, name := range names {
		patchDeployment(t, k, name, `{"spec": {"template": {"spec": `+podDrifts[name]+`}}}`)
	}
	for _, name := range names {
		k.Wait(name+" is undone", func(ctx context.Context) error {
			set := deployment(name)
			if err := k.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: name}, set); err != nil {
				return err
			}
			if diff := cmp.Diff(want[name], set.Spec); diff != "" {
				return fmt.Errorf("-want +got:\n%s", diff)
			}
			return nil
		})
		k.Eventually(app(name), testkit.Ready())
	}
	waitIdle(k, op)
}

func patchDeployment(t *testing.T, k *testkit.K, name, body string) {
	t.Helper()
	set := deployment(name)
	set.Namespace = k.Namespace
	patch := client.RawPatch(types.StrategicMergePatchType, []byte(body))
	if err := k.Client.Patch(k.Context(), set, patch, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Another source of the app's own volume is undone too, although the API server accepts one source only.
func TestForeignVolumeSourceIsRemoved(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	k.Apply(newMyApp("a"))
	k.Eventually(newMyApp("a"), testkit.Ready())
	patchDeployment(t, k, "a", `{"spec": {"template": {"spec": {"volumes": [
		{"name": "data-volume", "persistentVolumeClaim": null, "hostPath": {"path": "/"}}]}}}}`)
	k.Eventually(deployment("a"), testkit.Match("the claim alone", func(d *appsv1.Deployment) bool {
		v := d.Spec.Template.Spec.Volumes
		return len(v) == 1 && v[0].HostPath == nil && v[0].PersistentVolumeClaim != nil
	}))
	k.Eventually(newMyApp("a"), testkit.Ready())
}

// Fields that other clients legitimately set stay.
func TestOtherFieldsAreLeft(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	app := newMyApp("a")
	app.Spec.Storage.Enabled = new(false)
	app.Spec.PodTemplate = &runtime.RawExtension{Raw: []byte(`{"spec": {
		"securityContext": {"runAsNonRoot": true}, "dnsPolicy": "Default", "automountServiceAccountToken": false,
		"volumes": [{"name": "config", "configMap": {"name": "c", "optional": true}}, {"name": "tmp", "emptyDir": {}}],
		"initContainers": [{"name": "init", "image": "init:1", "command": ["true"]}],
		"containers": [{"name": "app-container", "command": ["run"],
			"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
			"lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
			"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}]}}`)}
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	waitIdle(k, op)
	op.Recorder().Reset()
	patchDeployment(t, k, "a", `{"metadata": {"labels": {"team": "shop"}}, "spec": {"minReadySeconds": 1, "replicas": 2,
		"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-11-25T00:00:00Z"}},
		"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"operator": "Exists"}],
		"containers": [{"name": "app-container", "resources": {"limits": {"memory": "1Gi"}}}]}}}}`)
	k.Eventually(app, testkit.Ready(), pods(2))
	waitIdle(k, op)
	for _, r := range writes(op) {
		if r.Resource == "deployments" {
			t.Errorf("the operator wrote %s", r)
		}
	}
}

// Addresses and ports of other clients lead no traffic to the app, or away from it.
func TestForeignTrafficIsRemoved(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := fullMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	inside := service("a")
	k.Update(inside, func() {
		inside.Spec.ExternalIPs = []string{"203.0.113.9"}
		inside.Spec.Ports = append(inside.Spec.Ports, corev1.ServicePort{Name: "debug", Port: 9229})
	})
	k.Eventually(inside, testkit.Match("only ours", func(s *corev1.Service) bool {
		return len(s.Spec.ExternalIPs) == 0 && len(s.Spec.Ports) == 1 && s.Spec.Ports[0].Name == "http"
	}))
	k.Update(inside, func() { inside.Spec.Ports = []corev1.ServicePort{{Port: 9229}} })
	k.Eventually(inside, testkit.Match("the port is back", func(s *corev1.Service) bool {
		return len(s.Spec.Ports) == 1 && s.Spec.Ports[0].Name == "http"
	}))
	outside := &networkingv1.Ingress{}
	outside.Name = "a"
	k.Update(outside, func() {
		outside.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
			Name: "other", Port: networkingv1.ServiceBackendPort{Number: 80},
		}}
		outside.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "other"}}
	})
	k.Eventually(outside, testkit.Match("only ours", func(i *networkingv1.Ingress) bool {
		return i.Spec.DefaultBackend == nil && len(i.Spec.TLS) == 0
	}))
	k.Eventually(app, testkit.Ready())
}

// An autoscaler of another client beside spec.replicas does not contend with the operator, and the message names it. When it
// is gone, spec.replicas holds again.
func TestAutoscalerBesideReplicas(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	app := newMyApp("a")
	app.Spec.Storage.Enabled = new(false)
	app.Spec.Replicas = new(int32(1))
	k.Apply(app)
	k.Eventually(app, testkit.Ready(), pods(1))
	theirs := &autoscalingv2.HorizontalPodAutoscaler{}
	theirs.Name = "theirs"
	theirs.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "a"}
	theirs.Spec.MinReplicas = new(int32(2))
	theirs.Spec.MaxReplicas = 3
	k.Apply(theirs)
	set := deployment("a")
	k.Update(set, func() { set.Spec.Replicas = new(int32(2)) }) // as the autoscaler does
	const advice = "HorizontalPodAutoscaler theirs scales Deployment a, so that spec.replicas (1) has no effect: " +
		"remove spec.replicas, or the HorizontalPodAutoscaler"
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ReplicasContended"), message(advice), pods(2))
	waitIdle(k, op)
	k.Eventually(set, replicas(2))
	k.Delete(theirs)
	k.Eventually(set, replicas(1))
	k.Eventually(app, testkit.Ready(), pods(1))
}

// A Deployment that another client paused rolls nothing out, and the message says so.
func TestPausedDeployment(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Ready(), pods(1))
	patchDeployment(t, k, "a", `{"spec": {"paused": true}}`)
	k.Update(app, func() { app.Spec.Image = "nginx:1.22" })
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "DeploymentPaused"), message("Deployment a is paused by "+
		"another client, so that no change of its pods is rolled out: run kubectl rollout resume deployment a"))
	patchDeployment(t, k, "a", `{"spec": {"paused": null}}`)
	k.Eventually(app, testkit.Ready(), pods(1))
}

// A Service to adopt that has a port without a name admits no second port. The message says what to do.
func TestAdoptionOfAServiceWithAnUnnamedPort(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	theirs := service("a")
	theirs.Spec.Ports = []corev1.ServicePort{{Port: 5432}}
	k.Apply(theirs)
	app := newMyApp("a")
	app.Annotations = map[string]string{myapp.AdoptAnnotation: "true"}
	app.Spec.Storage.Enabled = new(false)
	app.Spec.Service.Enabled = true
	k.Apply(app)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "UnnamedPort"), phase(v1.PhaseFailed),
		message("Service a has port 5432 without a name, so that it can have no other port and is not adopted: "+
			"name or remove that port, or delete the Service"))
	k.Update(theirs, func() { theirs.Spec.Ports[0].Name = "postgresql" })
	k.Eventually(app, testkit.Ready())
	k.Eventually(theirs, testkit.Match("adopted, with our port alone", func(s *corev1.Service) bool {
		return metav1.IsControlledBy(s, app) && len(s.Spec.Ports) == 1 && s.Spec.Ports[0].Port == 80
	}))
}
