package configrollout_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A workload that is not enabled is left alone, and a disabled one is left as it is.
func TestEnabled(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	out, in := deployment("out", "conf"), deployment("in", "conf")
	delete(out.Annotations, prefix+"enabled")
	k.Apply(out)
	adopt(k, in)
	change(k, "conf", "a", "2")
	k.Eventually(in, rolledFrom(""), result("Completed"), testkit.Ready())
	digest := digestOf(in)
	waitIdle(k, op)
	k.Update(in, func() { delete(in.Annotations, prefix+"enabled") })
	k.Eventually(in, testkit.Match("released", func(d *appsv1.Deployment) bool {
		for name := range d.Annotations {
			if strings.HasPrefix(name, prefix) {
				return false
			}
		}
		return true
	}))
	change(k, "conf", "a", "3")
	waitIdle(k, op)
	if k.Get(in); digestOf(in) != digest || replicaSets(t, k, "in") != 2 {
		t.Errorf("when it left, its template became %v", in.Spec.Template.Annotations)
	}
	if k.Get(out); len(out.Annotations) != 1 { // that of the Deployment controller
		t.Errorf("who takes no part has the annotations %v", out.Annotations)
	}
}

// The label of a namespace applies to all workloads without the annotation. Equal names in two namespaces are independent.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	op := k.Run(newOperator(t), testkit.ClusterWide())
	here := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}}
	there := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-2"}}
	k.Apply(there)
	var all []*appsv1.Deployment
	for _, namespace := range []string{here.Name, there.Name} {
		cm, d := configMap("conf", "a", "1"), deployment("a", "conf")
		cm.Namespace = namespace
		d.Namespace = namespace
		delete(d.Annotations, prefix+"enabled")
		k.Apply(cm)
		k.Apply(d)
		all = append(all, d)
	}
	without := deployment("without", "conf", "enabled", "false")
	k.Apply(without)
	waitIdle(k, op)
	if w := writes(op); len(w) > 0 {
		t.Errorf("without a label it writes %v", w)
	}
	k.Update(here, func() { here.Labels[prefix+"default"] = "yes" })
	k.Eventually(all[0], state("InvalidAnnotation: rollout.homeostat.dev/default: the namespace's label says"))
	for _, namespace := range []*corev1.Namespace{here, there} {
		k.Update(namespace, func() { namespace.Labels[prefix+"default"] = "enabled" })
	}
	for _, d := range all {
		k.Eventually(d, adopted(), testkit.Ready())
	}
	if observedDigest(all[0]) == observedDigest(all[1]) {
		t.Error("equal names in two namespaces have the same digest")
	}
	change(k, "conf", "a", "2") // in this namespace
	k.Eventually(all[0], rolledFrom(""), result("Completed"))
	waitIdle(k, op)
	k.Eventually(all[1], adopted())
	if k.Get(without); observedDigest(without) != "" {
		t.Error("the workload's own word does not count")
	}
	k.Update(here, func() { delete(here.Labels, prefix+"default") })
	k.Eventually(all[0], testkit.Match("released", func(d *appsv1.Deployment) bool { return observedDigest(d) == "" }))
}

// The label of a namespace applies also if the event of the namespace comes after those of its workloads.
func TestNamespaceSeenLate(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	var held atomic.Pointer[chan struct{}]
	op := k.Run(newOperator(t), testkit.ClusterWide(), testkit.WithTransport(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && r.URL.Path == "/api/v1/namespaces" {
				response.Body = &delayedBody{response.Body, r.Context(), &held}
			}
			return response, err
		})
	}))
	k.Apply(configMap("conf", "a", "1"))
	adopt(k, deployment("a", "conf")) // the operator is running
	release := make(chan struct{})
	held.Store(&release)
	there := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: k.Namespace + "-2", Labels: map[string]string{prefix + "default": "enabled"},
	}}
	k.Apply(there)
	cm, d := configMap("conf", "a", "1"), deployment("a", "conf")
	cm.Namespace = there.Name
	d.Namespace = there.Name
	delete(d.Annotations, prefix+"enabled")
	k.Apply(cm)
	k.Apply(d)
	k.Eventually(d, testkit.Ready())
	waitIdle(k, op)
	if k.Get(d); observedDigest(d) != "" {
		t.Fatal("the operator has heard of the namespace, so that this test shows nothing")
	}
	close(release)
	k.Eventually(d, adopted())
}

// delayedBody is a response body that is delayed while it is held.
type delayedBody struct {
	io.ReadCloser

	ctx  context.Context //nolint:containedctx // the context of the request
	held *atomic.Pointer[chan struct{}]
}

func (b *delayedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if held := b.held.Load(); held != nil {
		select {
		case <-*held:
		case <-b.ctx.Done():
		}
	}
	return n, err
}

// Both the workload and the object can ask to ignore changes.
func TestIgnore(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	loud := configMap("loud", "a", "1")
	loud.Annotations = map[string]string{prefix + "ignore": "true"}
	k.Apply(loud)
	byWorkload, byConfigMap := deployment("a", "conf", "ignore", "conf"), deployment("b", "loud")
	adopt(k, byWorkload, byConfigMap)
	change(k, "conf", "a", "2")
	change(k, "loud", "a", "2")
	waitIdle(k, op)
	k.Eventually(byWorkload, adopted())
	k.Eventually(byConfigMap, adopted())
	k.Update(byWorkload, func() { delete(byWorkload.Annotations, prefix+"ignore") })
	k.Update(loud, func() { delete(loud.Annotations, prefix+"ignore") })
	for _, d := range []*appsv1.Deployment{byWorkload, byConfigMap} { // the end of ignoring is no change
		before := observedDigest(d)
		k.Eventually(d, adopted(), testkit.Match("recorded", func(o client.Object) bool { return observedDigest(o) != before }))
	}
	change(k, "conf", "a", "3")
	change(k, "loud", "a", "3")
	k.Eventually(byWorkload, rolledFrom(""))
	k.Eventually(byConfigMap, rolledFrom(""))
}

// ConfigMaps without a reference in the template can be named. A missing one is awaited.
func TestNamedConfigMaps(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf", "configmaps", "extra")
	k.Apply(d)
	k.Eventually(d, state("ConfigMissing: ConfigMap/extra"))
	if note := waitEvent(k, d, "ConfigMissing"); !strings.Contains(note, "ConfigMap/extra") {
		t.Errorf("it is told as %q", note)
	}
	k.Apply(configMap("extra", "a", "1"))
	k.Eventually(d, adopted(), state(""))
	change(k, "extra", "a", "2")
	k.Eventually(d, rolledFrom(""))
}

// An invalid value holds the workload until it is corrected, and is reported once, in an event and a metric.
func TestInvalidAnnotations(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf", "window", "at night", "quiet-period", "soon", "priority", "high", "quite-period", "5s")
	adopt(k, d)
	k.Eventually(d, state("InvalidAnnotation: rollout.homeostat.dev/window"))
	told := waitEvent(k, d, "InvalidAnnotation")
	for _, name := range []string{"window", "quiet-period", "priority", "quite-period"} {
		if !strings.Contains(told, prefix+name) {
			t.Errorf("the event does not name %s: %s", name, told)
		}
	}
	change(k, "conf", "a", "2")
	k.Eventually(d, isPending())
	waitIdle(k, op)
	if k.Get(d); digestOf(d) != "" {
		t.Error("it was rolled")
	}
	for _, name := range []string{"window", "quiet-period", "priority", "unknown"} {
		labels := map[string]string{"namespace": k.Namespace, "annotation": name}
		if got := metric(t, "configrollout_invalid_annotation_total", labels); got != 1 {
			t.Errorf("%s is counted %v times", name, got)
		}
	}
	k.Update(d, func() {
		for _, name := range []string{"window", "quiet-period", "priority", "quite-period"} {
			delete(d.Annotations, prefix+name)
		}
	})
	k.Eventually(d, rolledFrom(""), result("Completed"), state(""))
}

// A rollout waits for its window.
func TestWindow(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	// A window that has closed until tomorrow, and one that is open.
	day := func(from time.Time, d string) string {
		return fmt.Sprintf("%d %d * * *;%s", from.Minute(), from.Hour(), d)
	}
	now := time.Now().UTC()
	closed := deployment("closed", "conf", "window", day(now.Add(-2*time.Hour), "1h")+";UTC")
	open := deployment("open", "conf", "window", day(now.Add(-time.Hour), "2h")+";UTC")
	adopt(k, closed, open)
	change(k, "conf", "a", "2")
	k.Eventually(open, rolledFrom(""), result("Completed"))
	k.Eventually(closed, isPending(), state("OutsideWindow"))
	waitEvent(k, closed, "OutsideWindow")
	waitIdle(k, op)
	k.Eventually(closed, isPending())
	op.Kill()
	k.Update(closed, func() { closed.Annotations[prefix+"window"] = open.Annotations[prefix+"window"] })
	start(t, k)
	k.Eventually(closed, rolledFrom(""), result("Completed"), state(""))
}

// A workload can ask for a dry run.
func TestDryRunOfAWorkload(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf", "dry-run", "true")
	adopt(k, d)
	change(k, "conf", "a", "2")
	k.Eventually(d, state("DryRun: it would roll to sha256:"))
	if note := waitEvent(k, d, "DryRun"); !strings.Contains(note, "because of ConfigMap/conf") {
		t.Errorf("it is told as %q", note)
	}
	waitIdle(k, op)
	if k.Get(d); digestOf(d) != "" || pending(d) {
		t.Errorf("the digest is %q, pending: %v", digestOf(d), pending(d))
	}
	k.Update(d, func() { delete(d.Annotations, prefix+"dry-run") })
	k.Eventually(d, rolledFrom(""), state(""))
}

// The flag --dry-run prints the planned actions and writes nothing.
func TestDryRunOfTheProgram(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	behind, same := deployment("behind", "conf"), deployment("same", "other")
	k.Apply(configMap("other", "a", "1"))
	adopt(k, behind, same)
	op.Stop()
	change(k, "conf", "a", "2")
	fresh := deployment("new", "conf")
	k.Apply(fresh)
	var out strings.Builder
	if err := newOperator(t).DryRun(k.Context(), k.Config, []string{k.Namespace}, &out); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("Deployment %[1]s/behind: wait (QuietPeriod); RolloutPending: ConfigMap/conf changed\n"+
		"Deployment %[1]s/new: baseline\n"+
		"configrollout: something would be done about 2 of 3 workloads\n", k.Namespace)
	if got := out.String(); got != want {
		t.Errorf("it prints\n%swant\n%s", got, want)
	}
	if k.Get(behind); pending(behind) {
		t.Error("it has written something")
	}
}

// Invalid options are rejected.
func TestOptions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*configrollout.Options){
		"max-concurrent-rollouts": func(o *configrollout.Options) { o.MaxConcurrent = 0 },
		"per namespace":           func(o *configrollout.Options) { o.MaxConcurrentPerNamespace = -1 },
		"quiet-period":            func(o *configrollout.Options) { o.QuietPeriod = -time.Second },
		"rollout-deadline":        func(o *configrollout.Options) { o.RolloutDeadline = 0 },
		"max-rollout-deadline":    func(o *configrollout.Options) { o.MaxRolloutDeadline = time.Minute },
	} {
		o := configrollout.DefaultOptions()
		change(&o)
		if _, err := configrollout.New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A change that is undone within the quiet period causes no rollout.
func TestChangedAndChangedBack(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf", "quiet-period", "1h")
	adopt(k, d)
	change(k, "conf", "a", "2")
	k.Eventually(d, isPending())
	change(k, "conf", "a", "1")
	k.Eventually(d, adopted(), testkit.Match("nothing pending", func(o client.Object) bool { return !pending(o) }))
	waitIdle(k, op)
	if n := replicaSets(t, k, "a"); n != 1 {
		t.Errorf("it has %d ReplicaSets", n)
	}
}

// Without the flag no Secret is read, even if pods use it. With the flag Secrets are handled like ConfigMaps.
func TestSecrets(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "password"}, Data: map[string][]byte{"p": []byte("hunter2")}}
	k.Apply(secret)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf", "secrets", "password")
	d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "password"}},
	}}
	op := start(t, k)
	adopt(k, d)
	k.Update(secret, func() { secret.Data["p"] = []byte("hunter3") })
	waitIdle(k, op)
	k.Eventually(d, adopted())
	for _, r := range slices.Concat(op.Recorder().Requests(), op.Recorder().Watches()) {
		if r.Resource == "secrets" {
			t.Fatalf("it asked for Secrets: %v", r)
		}
	}
	op.Stop()
	before := observedDigest(d)
	op = startWithSecrets(t, k)
	k.Eventually(d, adopted(), testkit.Match("updated", func(d *appsv1.Deployment) bool { return observedDigest(d) != before }))
	waitIdle(k, op)
	k.Eventually(d, adopted())
	k.Update(secret, func() { secret.Data["p"] = []byte("hunter4") })
	k.Eventually(d, rolledFrom(""), result("Completed"))
	waitEvent(k, secret, "RolloutTriggered")
	if text := d.Annotations[prefix+"last-rollout"]; strings.Contains(text, "hunter") || !strings.Contains(text,
		"Secret/password") {
		t.Errorf("last-rollout is %s", text)
	}
}

// Sources that a workload reloads itself cause no rollout where that is possible: in a volume, but not with a subPath.
func TestHotReload(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	hot, stuck := deployment("hot", "conf", "hot-reload", "conf"), deployment("stuck", "conf", "hot-reload", "conf")
	stuck.Spec.Template.Spec.Containers[0].VolumeMounts[0].SubPath = "a"
	adopt(k, hot, stuck)
	change(k, "conf", "a", "2")
	k.Eventually(stuck, rolledFrom(""))
	waitIdle(k, op)
	k.Eventually(hot, adopted())
}
