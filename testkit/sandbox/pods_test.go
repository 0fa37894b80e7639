package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// An emptyCluster is a cluster without operators, to install the operator widget in.
type emptyCluster struct {
	*testing.T
	s       *sandbox.Sandbox
	d       *journal
	c       client.Client
	project *sandbox.Project
	broken  string // the folder of another one
	stopped bool
}

func startEmptyCluster(t *testing.T) *emptyCluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	set, err := assets.Find(ctx, assets.Options{Programs: cluster.Programs(cluster.Workloads)})
	if err != nil {
		t.Fatal(err)
	}
	b := &emptyCluster{T: t, d: &journal{}, project: load(t), broken: writeBroken(t)}
	broken, err := sandbox.Load(ctx, b.broken)
	if err != nil {
		t.Fatal(err)
	}
	b.s, err = sandbox.Start(ctx, sandbox.Options{
		Projects: []*sandbox.Project{b.project, broken}, Assets: set, WithoutOperators: true,
		Report: b.d.report, Started: b.d.started,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		b.nothingRuns()
	})
	if b.c, err = client.New(b.s.Config(), client.Options{}); err != nil {
		t.Fatal(err)
	}
	objects := slices.Clone(b.project.Objects)
	slices.SortStableFunc(objects, func(a, _ *unstructured.Unstructured) int {
		if a.GetKind() == "Namespace" {
			return -1
		}
		return 0
	})
	b.do(manifest.Install(ctx, b.s.Config(), objects))
	return b
}

func (b *emptyCluster) nothingRuns() {
	b.Helper()
	ids := b.d.processes()
	if len(ids) == 0 {
		b.Error("nothing ever ran")
	}
	for _, id := range ids {
		if id.Alive() {
			b.Errorf("process %d still runs", id.PID)
		}
	}
}

// deploy installs the operator.
func (b *emptyCluster) deploy(name string, change func(*appsv1.Deployment)) *appsv1.Deployment {
	b.Helper()
	d := b.project.Deployment.DeepCopy()
	d.Name = name
	d.Spec.Selector.MatchLabels["app"], d.Spec.Template.Labels["app"] = name, name
	d.Spec.Template.Spec.Containers[0].Image = "registry.example:5000/team/widget:v1"
	if change != nil {
		change(d)
	}
	b.do(b.c.Create(b.Context(), d))
	b.Cleanup(func() {
		if b.stopped {
			return
		}
		ctx := context.WithoutCancel(b.Context())
		b.do(b.c.Delete(ctx, d, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		until(b.T, "the pods are gone", func() bool { return len(b.pods(name)) == 0 && len(b.processes(name)) == 0 })
	})
	return d
}

func (b *emptyCluster) do(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *emptyCluster) pods(name string) []corev1.Pod {
	b.Helper()
	var pods corev1.PodList
	b.do(b.c.List(context.WithoutCancel(b.Context()), &pods, client.MatchingLabels{"app": name}))
	return pods.Items
}

func (b *emptyCluster) processes(name string) []sandbox.PodProcess {
	return slices.DeleteFunc(b.s.Processes(), func(p sandbox.PodProcess) bool { return !strings.HasPrefix(p.Name, name+"-") })
}

// available waits until the given number of pods of a Deployment are Ready, and all are of its latest revision.
func (b *emptyCluster) available(d *appsv1.Deployment, want int32) {
	b.Helper()
	until(b.T, fmt.Sprintf("%d replicas of %s are available", want, d.Name), func() bool {
		b.do(b.c.Get(b.Context(), client.ObjectKeyFromObject(d), d))
		s := d.Status
		return s.ObservedGeneration == d.Generation &&
			s.AvailableReplicas == want && s.UpdatedReplicas == want && s.Replicas == want
	})
}

// widget creates a Widget and returns its message and the author.
func (b *emptyCluster) widget(name string) (message, by string) {
	b.Helper()
	w := b.project.Samples[0].DeepCopy()
	w.SetName(name)
	w.SetNamespace("default")
	b.do(b.c.Create(b.Context(), w))
	until(b.T, "it greets "+name, func() bool {
		b.do(b.c.Get(b.Context(), client.ObjectKeyFromObject(w), w))
		condition, _ := readiness.Condition(w, readiness.Ready)
		message = condition.Message
		by, _, _ = unstructured.NestedString(w.Object, "status", "by")
		return message != ""
	})
	return message, by
}

func readyCondition(pod *corev1.Pod) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

func TestPods(t *testing.T) {
	t.Parallel()
	b := startEmptyCluster(t)
	for name, test := range map[string]func(*emptyCluster){
		"Permissions":    rights,
		"Container":      container,
		"Deletion":       deletion,
		"Rollout":        rollout,
		"LeaderElection": leader,
		"Crash":          crash,
		"ForeignPods":    foreignPods,
		"CompileError":   compileError,
	} {
		t.Run(name, func(t *testing.T) {
			one := *b
			one.T = t
			test(&one)
		})
	}
	b.deploy("last", nil)
	until(t, "it runs", func() bool { p := b.processes("last"); return len(p) == 1 && p[0].PID != 0 })
	b.stopped = true
	if err := b.s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	b.nothingRuns()
}

// The operator has the current permissions of its account's roles, by a token that is invalid without its pod.
func rights(b *emptyCluster) {
	d := b.deploy("rights", withoutElection)
	b.available(d, 1)
	if message, _ := b.widget("no-secrets"); !strings.HasSuffix(message, "secrets forbidden: true") {
		b.Errorf("it may read Secrets: %s", message)
	}
	grant := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "grant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: d.Namespace, Name: "widget-operator"}},
	}
	b.do(b.c.Create(b.Context(), grant))
	n := 0
	says := func(suffix string) func() bool {
		return func() bool {
			n++
			message, _ := b.widget(fmt.Sprintf("rights-%d", n))
			return strings.HasSuffix(message, suffix)
		}
	}
	until(b.T, "it uses the new permission", says("secrets forbidden: false"))
	b.do(b.c.Delete(b.Context(), grant))
	until(b.T, "it is denied the revoked permission", says("secrets forbidden: true"))

	pod := b.pods("rights")[0]
	file := strings.TrimSuffix(b.processes("rights")[0].LogFile, ".log") + "_" + string(pod.UID) + ".token"
	token, err := os.ReadFile(file)
	b.do(err)
	review := b.review(string(token))
	if got := review.User.Extra["authentication.kubernetes.io/pod-name"]; !slices.Equal(got, []string{pod.Name}) ||
		review.User.Username != "system:serviceaccount:widget-system:widget-operator" {
		b.Errorf("the token is for %+v", review.User)
	}
	b.do(b.c.Delete(b.Context(), &pod))
	until(b.T, "the token is worthless", func() bool { return !b.review(string(token)).Authenticated })
	until(b.T, "it is removed", func() bool { _, err := os.Stat(file); return os.IsNotExist(err) })
	b.available(d, 1)
}

func (b *emptyCluster) review(token string) authenticationv1.TokenReviewStatus {
	b.Helper()
	r := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	b.do(b.c.Create(b.Context(), r))
	return r.Status
}

func withoutElection(d *appsv1.Deployment) {
	c := &d.Spec.Template.Spec.Containers[0]
	c.Args = slices.DeleteFunc(c.Args, func(arg string) bool { return arg == "--leader-elect" })
}

func container(b *emptyCluster) {
	d := b.deploy("container", func(d *appsv1.Deployment) {
		withoutElection(d)
		c := &d.Spec.Template.Spec.Containers[0]
		c.Args[len(c.Args)-1] = "--greeting=$(WORD) of $(TEAM), $$(WORD)"
		c.Command = []string{"/no/such/program"}
		limit := &corev1.ResourceFieldSelector{ContainerName: c.Name, Resource: "limits.cpu"}
		annotation := &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['team']"}
		secret := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "scope"}, Key: "word"}
		c.Env = append(c.Env,
			corev1.EnvVar{Name: "WORD", Value: "regards"},
			corev1.EnvVar{Name: "TEAM", ValueFrom: &corev1.EnvVarSource{FieldRef: annotation}},
			corev1.EnvVar{Name: "LIMIT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: limit}})
		c.Env[0].Value = ""
		c.Env[0].ValueFrom = &corev1.EnvVarSource{SecretKeyRef: secret}
		d.Spec.Template.Annotations = map[string]string{"team": "seven"}
	})
	until(b.T, "the missing Secret is reported", func() bool { return b.d.has(`secrets "scope" not found`) })
	b.do(b.c.Create(b.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: "scope"}, Data: map[string][]byte{"word": []byte("all")},
	}))
	b.available(d, 1)
	message, by := b.widget("container")
	want := "regards of seven, $(WORD) all from widget-system, secrets forbidden: true"
	if pod := b.pods("container")[0]; message != want || by != pod.Name {
		b.Errorf("pod %s says %q, want %s to say %q", by, message, pod.Name, want)
	}
	if !b.d.has("runs without LIMIT, whose values only a kubelet knows") {
		b.Error("the unknown variable was not reported")
	}
}

func deletion(b *emptyCluster) {
	d := b.deploy("deletion", withoutElection)
	b.available(d, 1)
	before := b.processes("deletion")[0]
	id, err := process.Identify(before.PID)
	b.do(err)
	b.do(b.c.Delete(b.Context(), &b.pods("deletion")[0]))
	until(b.T, "the process ends", func() bool { return !id.Alive() })
	until(b.T, "another takes its place", func() bool {
		now := b.processes("deletion")
		return len(now) == 1 && now[0].PID != 0 && now[0].Name != before.Name && now[0].Restarts == 0
	})
	if text, err := os.ReadFile(before.LogFile); err != nil || strings.Contains(string(text), "panic") {
		b.Errorf("its log: %v, %s", err, text)
	}
}

func leader(b *emptyCluster) {
	d := b.deploy("leader", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) })
	b.available(d, 2)
	first := map[string]bool{}
	for i := range 5 {
		_, by := b.widget(fmt.Sprintf("led-%d", i))
		first[by] = true
	}
	if len(first) != 1 {
		b.Fatalf("widgets were greeted by %v, want one", first)
	}
	var lead string
	for lead = range first { //nolint:revive // there is one
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: "widget"}}
	b.do(b.c.Get(b.Context(), client.ObjectKeyFromObject(lease), lease)) // the other waits for it
	leads := slices.IndexFunc(b.processes("leader"), func(p sandbox.PodProcess) bool { return p.Name == lead })
	id, err := process.Identify(b.processes("leader")[leads].PID)
	b.do(err)
	b.do(b.c.Delete(b.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: lead}}))
	until(b.T, "the process ends", func() bool { return !id.Alive() }) // it leads until then
	if _, by := b.widget("led-by-another"); by == lead || !strings.HasPrefix(by, "leader-") {
		b.Errorf("it was greeted by %s, which is gone", by)
	}
}

// A crashed process is restarted, and its pod reports it.
func crash(b *emptyCluster) {
	d := b.deploy("crash", withoutElection)
	b.available(d, 1)
	b.do(syscall.Kill(b.processes("crash")[0].PID, syscall.SIGKILL))
	var pod corev1.Pod
	until(b.T, "the pod waits", func() bool {
		pod = b.pods("crash")[0]
		w := pod.Status.ContainerStatuses[0].State.Waiting
		return w != nil && w.Reason == "CrashLoopBackOff"
	})
	s := pod.Status.ContainerStatuses[0]
	if last := s.LastTerminationState.Terminated; readyCondition(&pod) != corev1.ConditionFalse || s.RestartCount != 1 ||
		last == nil || last.ExitCode != 137 {
		b.Errorf("meanwhile its status is %+v", pod.Status)
	}
	until(b.T, "the pod is Ready again", func() bool {
		pod = b.pods("crash")[0]
		return readyCondition(&pod) == corev1.ConditionTrue
	})
	if s := pod.Status.ContainerStatuses[0]; !s.Ready || s.State.Running == nil || s.RestartCount != 1 {
		b.Errorf("afterwards its status is %+v", pod.Status)
	}
	if now := b.processes("crash")[0]; now.Restarts != 1 || now.PID == 0 {
		b.Errorf("its process is %+v", now)
	}
}

func foreignPods(b *emptyCluster) {
	for i, image := range []string{"widgets", "widget-proxy:v1", "widget/other", "example.com/a/b@sha256:widget"} {
		d := b.deploy(fmt.Sprintf("other-%d", i), func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
		b.available(d, 1)
		if gates := b.pods(d.Name)[0].Spec.ReadinessGates; len(gates) > 0 {
			b.Errorf("the pod of image %s waits for %v", image, gates)
		}
	}
	once := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "once"}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "widget:v1"}},
	}}
	b.do(b.c.Create(b.Context(), once))
	until(b.T, "the simulation runs it", func() bool {
		b.do(b.c.Get(b.Context(), client.ObjectKeyFromObject(once), once))
		return readyCondition(once) == corev1.ConditionTrue
	})
	b.available(b.deploy("one-of-ours", withoutElection), 1) // the pods before that have been handled
	if now := b.s.Processes(); len(now) != 1 {
		b.Errorf("these run: %+v", now)
	}
}
