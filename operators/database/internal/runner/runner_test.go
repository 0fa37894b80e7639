//go:build linux

package runner_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/database/internal/runner"
	"github.com/homeostat-dev/homeostat/testkit"
)

// server answers each connection with the index of its pod.
const server = `
echo "$GREETING $(cat /config/text)" >/scratch/greeting
echo -n 'run ' >>/data/log
exec perl -MIO::Socket::INET -e '
  my $s = IO::Socket::INET->new(LocalPort => 8080, Listen => 5, ReuseAddr => 1) or die $!;
  $SIG{INT} = sub { open my $log, ">>", "/data/log"; print $log "stop "; exit 0 };
  open my $ready, ">", "/dev/shm/ready" or die $!;
  while (1) { my $c = $s->accept or next; print $c "$ENV{INDEX}\n"; close $c }'
`

func object(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// apply creates a StatefulSet of two pods with its ConfigMap, Secret and Services.
func apply(k *testkit.K) *appsv1.StatefulSet {
	k.Apply(&corev1.ConfigMap{ObjectMeta: object("web"), Data: map[string]string{"text": "world"}})
	k.Apply(&corev1.Secret{ObjectMeta: object("web"), StringData: map[string]string{"password": "secret"}})
	labels := map[string]string{"app": "web"}
	ports := []corev1.ServicePort{{Name: "web", Port: 80, TargetPort: intstr.FromString("web")}}
	k.Apply(&corev1.Service{ObjectMeta: object("web"), Spec: corev1.ServiceSpec{Selector: labels, Ports: ports}})
	k.Apply(&corev1.Service{ObjectMeta: object("web-hl"), Spec: corev1.ServiceSpec{
		Selector: labels, ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
	}})
	set := &appsv1.StatefulSet{ObjectMeta: object("web"), Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(2)), ServiceName: "web-hl", Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: new(int64(999)), FSGroup: new(int64(999)), RunAsNonRoot: new(true),
			},
			InitContainers: []corev1.Container{{
				Name: "init", Image: "postgres:16", Command: []string{"sh", "-c", "id >/scratch/id; hostname -f >/scratch/name"},
				VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
			}},
			Containers: []corev1.Container{{
				Name: "web", Image: "postgres:16", Command: []string{"sh", "-c", server},
				Env: []corev1.EnvVar{
					{Name: "INDEX", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
						FieldPath: "metadata.labels['apps.kubernetes.io/pod-index']",
					}}},
					{Name: "GREETING", Value: "hello from $(INDEX) to the"},
				},
				Ports:          []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}},
				ReadinessProbe: probe("test", "-e", "/dev/shm/ready"),
				LivenessProbe:  probe("test", "!", "-e", "/dev/shm/stuck"),
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "scratch", MountPath: "/scratch"},
					{Name: "tmp", MountPath: "/tmp"},
					{Name: "config", MountPath: "/config"},
					{Name: "data", MountPath: "/data"},
					{Name: "secret", MountPath: "/secret"},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "web"},
				}}},
				{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
					SecretName: "web", DefaultMode: new(int32(0o400)),
				}}},
			},
		}},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: object("data"), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		}}},
	}}
	k.Apply(set)
	return set
}

func probe(command ...string) *corev1.Probe {
	return &corev1.Probe{
		PeriodSeconds: 1, FailureThreshold: 2, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}},
	}
}

func ready(want int32) testkit.Check {
	return testkit.Match(fmt.Sprintf("%d pods are ready", want), func(set *appsv1.StatefulSet) bool {
		return set.Status.ReadyReplicas == want
	})
}

func TestStatefulSet(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	r := runner.Start(t, k, "perl")
	set := apply(k)
	k.Eventually(set, ready(2))
	do := func(script string) string {
		t.Helper()
		out, err := r.Exec("web-1", "web", "bash", "-c", script)
		if err != nil {
			t.Errorf("%s: %v", script, err)
		}
		return strings.TrimSpace(out)
	}
	for script, want := range map[string]string{
		"cat /scratch/greeting":                          "hello from 1 to the world",
		"cat /scratch/id":                                "uid=999(postgres) gid=999(postgres) groups=999(postgres)",
		"id -u; cat /proc/1/comm":                        "999\nperl",
		"cat /scratch/name":                              "web-1.web-hl." + k.Namespace + ".svc.cluster.local",
		"cat /secret/password; stat -Lc ' %a' /secret/*": "secret 440",
		"stat -c '%g %a' /data":                          "999 2775",
		"ls /data":                                       "log\nlost+found",
		"touch /x 2>&1 || true":                          "touch: cannot touch '/x': Read-only file system",
	} {
		if got := do(script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	pod := &corev1.Pod{ObjectMeta: object("web-1")}
	k.Get(pod)
	for _, c := range pod.Status.Conditions {
		if c.Status != corev1.ConditionTrue || c.Reason != "" {
			t.Errorf("%s is %s because of %q", c.Type, c.Status, c.Reason)
		}
	}
	for range 10 {
		if got := do("cat </dev/tcp/web-0.web-hl/8080"); got != "0" {
			t.Fatalf("pod 0 says that it is %q", got)
		}
	}
	seen := map[string]int{}
	for range 40 {
		seen[do("cat </dev/tcp/web/80")]++
	}
	if seen["0"] == 0 || seen["1"] == 0 || len(seen) != 2 {
		t.Errorf("the Service forwards to %v", seen)
	}
}

// A container is restarted with its data, and receives connections only when it is ready.
func TestRestart(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	r := runner.Start(t, k, "perl")
	set := apply(k)
	k.Eventually(set, ready(2))
	pod := &corev1.Pod{ObjectMeta: object("web-0")}
	ended := func(code int32) testkit.Check {
		return testkit.Match(fmt.Sprintf("its container has ended with %d, and is started again", code), func(p *corev1.Pod) bool {
			s := p.Status.ContainerStatuses[0]
			last := s.LastTerminationState.Terminated
			return last != nil && last.ExitCode == code && s.RestartCount > 0 && s.Ready
		})
	}
	r.Kill("web-0")
	k.Eventually(pod, ended(137))
	do := func(pod string, command ...string) string {
		t.Helper()
		out, err := r.Exec(pod, "web", command...)
		if err != nil {
			t.Error(err)
		}
		return out
	}
	reach := []string{"timeout", "5", "bash", "-c", "cat </dev/tcp/web/80"}
	do("web-1", reach...)
	do("web-0", "touch", "/dev/shm/stuck")
	k.Eventually(pod, ended(0))
	k.Delete(pod)
	k.Eventually(pod, testkit.Gone())
	k.Eventually(&corev1.Pod{ObjectMeta: object("web-0")}, testkit.Condition("Ready", metav1.ConditionTrue))
	if got := do("web-0", "cat", "/data/log"); got != "run run stop run stop run " { //nolint:dupword // it runs twice
		t.Errorf("the log that outlives the pods is %q", got)
	}
	do("web-1", reach...) // after the network of the previous pod was removed
	for _, name := range []string{"web-0", "web-1"} {
		do(name, "rm", "/dev/shm/ready")
	}
	k.Eventually(set, ready(0))
	k.Wait("the Service refuses connections", func(ctx context.Context) error {
		conn, err := r.Dial(ctx, "web:80")
		if err == nil {
			_ = conn.Close()
			return errors.New("it does not")
		}
		return nil
	})
}

// A Job ends with the result of its command, and its pods have the termination message.
func TestJob(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	r := runner.Start(t, k)
	run := func(name, script string) *batchv1.Job {
		job := &batchv1.Job{ObjectMeta: object(name), Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{
					Name: "job", Image: "postgres:16", Command: []string{"bash", "-c", script},
					Env:                      []corev1.EnvVar{{Name: "NAME", Value: name}},
					TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				}},
			}},
		}}
		k.Apply(job)
		return job
	}
	good := run("good", `echo "$NAME: done" | tee /dev/termination-log`)
	bad := run("bad", `echo "$NAME: not done" >&2; exit 3`)
	k.Eventually(good, testkit.Condition("Complete", metav1.ConditionTrue))
	k.Eventually(bad, testkit.Condition("Failed", metav1.ConditionTrue))
	var pods corev1.PodList
	if err := k.Client.List(t.Context(), &pods, client.InNamespace(k.Namespace)); err != nil {
		t.Fatal(err)
	}
	ends := map[string]int{}
	for _, p := range pods.Items {
		s := p.Status.ContainerStatuses[0].State.Terminated
		ends[fmt.Sprintf("%s %d %s", p.Status.Phase, s.ExitCode, s.Message)]++
	}
	if want := map[string]int{"Succeeded 0 good: done\n": 1, "Failed 3 bad: not done\n": 1}; !maps.Equal(ends, want) {
		t.Errorf("the pods end as %v, want %v", ends, want)
	}
	if logs := r.Logs(""); strings.Count(logs, "bad: not done\n") != 1 {
		t.Errorf("they have printed\n%s", logs)
	}
}

// After the test, no process and no mount of its pods is left.
func TestCleanup(t *testing.T) {
	t.Parallel()
	var namespace string
	t.Run("pods", func(t *testing.T) {
		k := testkit.New(t)
		namespace = k.Namespace
		runner.Start(t, k)
		pod := &corev1.Pod{ObjectMeta: object("stubborn"), Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "postgres:16", Command: []string{
				"sh", "-c", `trap '' INT; sh -c "sleep infinity; true" $0 & wait`, namespace,
			},
		}}}}
		k.Apply(pod)
		k.Eventually(pod, testkit.Condition("Ready", metav1.ConditionTrue))
		k.Wait("both processes run", func(context.Context) error {
			if n := processes(t, namespace); n != 2 {
				return fmt.Errorf("%d do", n)
			}
			return nil
		})
	})
	if n := processes(t, namespace); n > 0 {
		t.Errorf("%d processes are left", n)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), " - tmpfs runner") {
		t.Errorf("mounts are left, %v:\n%s", err, mounts)
	}
}

// processes counts the processes that have the namespace in their arguments.
func processes(t *testing.T, namespace string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), namespace) {
			n++
		}
	}
	return n
}
