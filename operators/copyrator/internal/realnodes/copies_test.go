// Package realnodes_test runs pods that use copies of ConfigMaps and Secrets on real nodes.
package realnodes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat-dev/homeostat/operators/copyrator"
	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	v2 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v2"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/versions"
	"github.com/homeostat-dev/homeostat/sdk/conversion"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.RunHelperProcess() // it runs in another folder
	env, err := environment()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m, env)
}

// environment has the shipped manifests, with the same permissions for Secrets as for ConfigMaps, as in config/with-secrets.
func environment() (testkit.Env, error) {
	shipped := fstest.MapFS{}
	config := os.DirFS("../../config")
	for _, folder := range []string{"crd", "rbac", "access"} {
		err := fs.WalkDir(config, folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := fs.ReadFile(config, name)
			const one = "  - configmaps\n" // in a role
			shipped[name] = &fstest.MapFile{Data: bytes.ReplaceAll(data, []byte(one), []byte(one+"  - secrets\n"))}
			return err
		})
		if err != nil {
			return testkit.Env{}, err
		}
	}
	handler, err := conversion.Handler(versions.Conversion)
	return testkit.Env{
		FS: shipped, CRDs: "crd", RBAC: "rbac", AdmissionPolicies: "access/fence.yaml", Conversion: handler,
		AddToScheme: func(s *runtime.Scheme) error { return errors.Join(v1.AddToScheme(s), v2.AddToScheme(s)) },
		Real:        &testkit.RealNodes{},
	}, err
}

const (
	image = "example/web:1"
	port  = 8080
)

// start returns a test with real nodes that have the image, and runs the operator in its namespace.
func start(t *testing.T) *testkit.K {
	t.Helper()
	k := testkit.New(t)
	k.Timeout = 5 * time.Minute
	k.LoadPackage(image, "github.com/homeostat-dev/homeostat/testkit/cmd/web")
	k.Run(copyrator.New(copyrator.Options{Namespace: k.Namespace, RuleName: k.Namespace + "-*", Secrets: true}),
		testkit.ClusterWide())
	return k
}

// user returns a pod that needs a ConfigMap as a volume and a Secret as variables.
func user(namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "user"}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{
			Name: "web", Image: image,
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "credentials"},
			}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "settings", MountPath: "/settings"}},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(port)},
			}},
		}},
		Volumes: []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}},
		}}},
	}}
}

// rule copies the objects of a kind from the operator's namespace to another one.
func rule(k *testkit.K, kind v1.RuleType, target string) *v1.CopyratorRule {
	return &v1.CopyratorRule{
		ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-" + string(kind), Namespace: k.Namespace},
		Rule: v1.Rule{
			RuleType: kind, Selector: v1.Selector{Labels: map[string]string{"copyrator": "true"}}, TargetNamespaces: []string{target},
		},
	}
}

// A pod that needs copies starts when they exist, and a change of a source reaches the files of its container.
func TestPodUsesCopies(t *testing.T) {
	t.Parallel()
	k := start(t)
	target := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-target"}}
	k.Apply(target)
	t.Cleanup(func() { _ = k.Client.Delete(context.WithoutCancel(t.Context()), target) })
	pod := user(target.Name)
	k.Apply(pod)
	k.Eventually(pod, waiting("ContainerCreating")) // for its volume

	labels := map[string]string{"copyrator": "true"}
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", Labels: labels}, Data: map[string]string{"text": "one"},
	}
	k.Apply(settings)
	k.Apply(rule(k, "configmap", target.Name))
	k.Eventually(pod, waiting("CreateContainerConfigError")) // for its variables
	k.Apply(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "credentials", Labels: labels}, Data: map[string][]byte{"PASSWORD": []byte("secret")},
	})
	k.Apply(rule(k, "secret", target.Name))
	k.Eventually(pod, testkit.Ready())
	if text, err := k.Fetch(pod, port, "/env/PASSWORD"); err != nil || text != "secret" {
		t.Errorf("the variable of the Secret is %q, %v", text, err)
	}
	expectFile(k, pod, "one")

	k.Update(settings, func() { settings.Data["text"] = "two" })
	expectFile(k, pod, "two")
	k.Get(pod)
	if n := pod.Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("the container was restarted %d times", n)
	}
}

// waiting checks the reason for which the container has not started.
func waiting(reason string) testkit.Check {
	return testkit.Match("waiting with "+reason, func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == reason
	})
}

// expectFile waits until the container sees this content of the ConfigMap.
func expectFile(k *testkit.K, pod *corev1.Pod, want string) {
	k.Wait("the file has the content "+want, func(context.Context) error {
		text, err := k.Fetch(pod, port, "/file/settings/text")
		if err == nil && text != want {
			err = fmt.Errorf("it is %q", text)
		}
		return err
	})
}
