// Package realnodes_test runs the pods of ImmortalContainers on real nodes.
package realnodes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		CRDs: "../../config/crd", RBAC: "../../config/rbac", AddToScheme: v1alpha1.AddToScheme,
		AdmissionPolicies: "../../config/access/fence.yaml",
		Real:              &testkit.RealNodes{Lease: 10 * time.Second},
	})
}

const (
	image = "example/web:1"
	port  = 8080
)

// start returns a test with real nodes that have the image, and runs the operator.
func start(t *testing.T, opts ...testkit.Option) *testkit.K {
	t.Helper()
	k := testkit.New(t, opts...)
	k.Timeout = 5 * time.Minute
	k.LoadPackage(image, "github.com/homeostat-dev/homeostat/testkit/cmd/web")
	k.Run(immortalcontainer.Operator)
	return k
}

// newContainer returns an ImmortalContainer with a web server.
func newContainer(name string) *v1alpha1.ImmortalContainer {
	ic := &v1alpha1.ImmortalContainer{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ic.Spec.Image = image
	ic.Spec.TerminationGracePeriodSeconds = new(int64(1))
	ic.Spec.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(port)},
	}}
	return ic
}

// A journal is the file to which the containers of one ImmortalContainer append a line when they start. It is on the
// machine, so that a test reads it without a node. See package web.
type journal struct {
	t    *testing.T
	file string
}

// keepJournal gives the containers a journal.
func keepJournal(t *testing.T, ic *v1alpha1.ImmortalContainer) journal {
	t.Helper()
	const mount = "/journal"
	dir := t.TempDir()
	ic.Spec.Args = []string{"-lock", mount + "/" + ic.Name}
	ic.Spec.Env = []corev1.EnvVar{{Name: "POD_UID", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"},
	}}}
	ic.Spec.PodSecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0))}
	ic.Spec.Volumes = []corev1.Volume{{Name: "journal", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: dir},
	}}}
	ic.Spec.VolumeMounts = []corev1.VolumeMount{{Name: "journal", MountPath: mount}}
	return journal{t, filepath.Join(dir, ic.Name)}
}

// lines returns the lines so far.
func (j journal) lines() []string {
	j.t.Helper()
	data, err := os.ReadFile(j.file)
	if err != nil {
		j.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// podOf returns the pod of an ImmortalContainer.
func podOf(k *testkit.K, ic *v1alpha1.ImmortalContainer) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: desired.PodName(ic)}}
	k.Get(pod)
	return pod
}

func containerOf(k *testkit.K, pod *corev1.Pod) *testkit.Container {
	return k.Container(pod, desired.ContainerName)
}

func starts(n int64) testkit.Check {
	return testkit.Match("startTimes", func(ic *v1alpha1.ImmortalContainer) bool { return ic.Status.StartTimes == n })
}

func restarts(n int32) testkit.Check {
	return testkit.Match("containerRestarts", func(ic *v1alpha1.ImmortalContainer) bool {
		return ic.Status.ContainerRestarts == n
	})
}

func lastTermination(reason string) testkit.Check {
	return testkit.Match("last termination "+reason, func(ic *v1alpha1.ImmortalContainer) bool {
		return ic.Status.LastTermination != nil && ic.Status.LastTermination.Reason == reason
	})
}
