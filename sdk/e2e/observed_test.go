package e2e

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// podObserver returns an operator that counts pods that it does not own.
func podObserver() *siteOperator {
	op := operator(func(ctx context.Context, p *pass) error {
		pods := sdk.Observed(p, &corev1.Pod{})
		p.Object.Status.Seen = int64(len(pods))
		p.Object.Status.UID = ""
		if len(pods) > 0 {
			p.Object.Status.UID = pods[0].Name
			pods[0].Name = "the cache is not to be changed"
		}
		return oneChild(ctx, p)
	})
	op.Owns = []client.Object{&corev1.ConfigMap{}}
	op.Observes = []client.Object{&corev1.Pod{}}
	return op
}

// podOfDeployment returns a pod as a Deployment of the site would create it.
func podOfDeployment(s *site.Site, name string, labels map[string]string) *corev1.Pod {
	p := pod(s, name)
	p.Labels = map[string]string{sdk.ManagedByLabel: operatorName, sdk.InstanceLabel: s.Name}
	maps.Copy(p.Labels, labels)
	return p
}

func podCount(n int64, first string) testkit.Check {
	return testkit.Match("count", func(s *site.Site) bool { return s.Status.Seen == n && s.Status.UID == first })
}

// Objects that children create are observed, and their changes trigger reconciles. They are never written, regardless of
// their owner.
func TestObserved(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, podObserver())
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	of := []*corev1.Pod{podOfDeployment(s, "c", nil), podOfDeployment(s, "b", nil)}
	for _, p := range []*corev1.Pod{
		of[0], of[1], podOfDeployment(s, "other", map[string]string{sdk.InstanceLabel: "other"}),
		podOfDeployment(s, "theirs", map[string]string{sdk.ManagedByLabel: "theirs"}),
	} {
		k.Apply(p)
	}
	k.Eventually(s, testkit.Ready(), podCount(2, "b"))
	waitIdle(k, running, quietPeriod)

	running.Stop()
	running = start(k, podObserver())
	waitIdle(k, running, quietPeriod)
	if writes := running.Recorder().Writes(); len(writes) > 0 {
		t.Errorf("writes after a restart: %v", writes)
	}
	k.Update(of[1], func() { of[1].Labels[sdk.InstanceLabel] = "other" })
	k.Eventually(s, podCount(1, "c"))
	k.Delete(of[0])
	k.Eventually(s, podCount(0, ""))

	k.Apply(podOfDeployment(s, "d", nil))
	k.Eventually(s, podCount(1, "d"))
	k.Delete(s)
	k.Eventually(s, testkit.Gone())
	waitIdle(k, running, quietPeriod)
	k.Eventually(named(&corev1.Pod{}, "d"), testkit.Exists())
}

func TestObservedKindsHaveToBeListed(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Observed(p, &corev1.Service{})
		return nil
	})
	start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Panic"))
	if _, _, message := condition(s, conditions.Ready); !strings.Contains(message, "add it to Observes") {
		t.Errorf("the message %q does not name the remedy", message)
	}
}

// A plan reads the observed objects that it is given.
func TestDryObserves(t *testing.T) {
	t.Parallel()
	s := newSite("a")
	s.Namespace = "shop"
	plan := sdk.Dry(t.Context(), podObserver(), s, podOfDeployment(s, "x", nil), podOfDeployment(s, "y", nil))
	if got := plan.Object.Status; plan.Err != nil || got.Seen != 2 || got.UID != "x" {
		t.Errorf("%v, %+v", plan.Err, got)
	}
}

// A report function gets the result for each child, and its changes are part of the status.
func TestReport(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	reports := make(chan []conditions.Child, 100)
	op := operator(func(_ context.Context, p *pass) error {
		mine := sdk.Apply(p, configMap(p.Object, "mine"))
		web := sdk.Apply(p, deployment(p.Object))
		sdk.Apply(p, configMap(p.Object, "taken"))
		sdk.Apply(p, configMap(p.Object, "later"), sdk.After(web, mine))
		p.OnPlanExecuted(func(children []conditions.Child) {
			ready := int64(0)
			for i, c := range children {
				if c.Ready {
					ready++
				}
				if (c.UID == "") != (c.Name == "later" || c.Name == "taken") {
					t.Errorf("%s %s has UID %q", c.Kind, c.Name, c.UID)
				}
				children[i].UID = ""
			}
			p.Object.Status.Seen = ready
			reports <- children
		})
		return nil
	})
	k.Apply(foreignConfigMap())
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"),
		testkit.Match("the report's word", func(s *site.Site) bool { return s.Status.Seen == 1 }))
	waitIdle(k, running, quietPeriod)
	var last []conditions.Child
	for len(reports) > 0 {
		last = <-reports
	}
	want := []conditions.Child{
		{Kind: "ConfigMap", Namespace: k.Namespace, Name: "mine", Ready: true, Reason: "Ready"},
		{
			Kind: "Deployment", Namespace: k.Namespace, Name: "a", Reason: "Progressing",
			Message: "Replicas: 0/1",
		},
		{
			Kind: "ConfigMap", Namespace: k.Namespace, Name: "taken", Reason: "ResourceConflict",
			Message: "ConfigMap " + k.Namespace + "/taken exists and has no owner: delete it, or use another name",
		},
		{
			Kind: "ConfigMap", Namespace: k.Namespace, Name: "later", Reason: "Progressing",
			Message: "ConfigMap later waits for Deployment a",
		},
	}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A panic of a report function affects its object only, and is retried.
func TestReportMayPanic(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k, operator(func(ctx context.Context, p *pass) error {
		text := p.Object.Spec.Text
		p.OnPlanExecuted(func([]conditions.Child) {
			if text != "mended" {
				panic("oh no")
			}
		})
		return oneChild(ctx, p)
	}))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Panic"))
	k.Update(s, func() { s.Spec.Text = "mended" })
	k.Eventually(s, testkit.Ready())
}

// A spec may request a pause, too.
func TestPausedBySpec(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(oneChild)
	op.Paused = func(s *site.Site) bool { return s.Spec.Text == "stop" }
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	k.Update(s, func() { s.Spec.Text = "stop" })
	k.Eventually(s, testkit.Condition("Paused", metav1.ConditionTrue))
	if _, _, message := condition(s, "Paused"); !strings.Contains(message, "its spec asks for a pause") {
		t.Errorf("the message is %q", message)
	}
	c := named(&corev1.ConfigMap{}, s.Name)
	k.Consistently(c, observationPeriod, text("hello"))
	if plan := sdk.Dry(t.Context(), op, s); len(plan.Actions) != 1 || plan.Actions[0].Reason != "its spec asks for a pause" {
		t.Errorf("the plan is\n%s", plan)
	}
	k.Update(s, func() { s.Spec.Text = "go" })
	k.Eventually(s, testkit.Ready(), without("Paused"))
	k.Eventually(c, text("go"))
}

// OrphanChildren with a kind leaves children of other kinds to garbage collection.
func TestOrphanChildrenOfOneKind(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, p.Object.Name))
		sdk.Apply(p, secret(p.Object.Name, "x"))
		return nil
	})
	op.Finalize = func(_ context.Context, p *pass) error {
		p.OrphanChildren(&corev1.Secret{})
		return nil
	}
	start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	kept, other := get(k, named(&corev1.Secret{}, s.Name)), get(k, named(&corev1.ConfigMap{}, s.Name))
	k.Delete(s)
	k.Eventually(s, testkit.Gone())
	if k.Get(kept); len(kept.OwnerReferences) > 0 {
		t.Errorf("the Secret is not kept: %v", kept.OwnerReferences)
	}
	k.Eventually(other, testkit.Gone())
}

// AdoptIf never adopts objects that do not meet its condition.
func TestAdoptIf(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k, operator(func(_ context.Context, p *pass) error {
		left := func(o client.Object) bool { return o.GetLabels()["left"] == "by-us" }
		sdk.Apply(p, configMap(p.Object, "taken"), sdk.AdoptIf(left))
		return nil
	}))
	taken, s := foreignConfigMap(), newSite("a")
	k.Apply(taken)
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"))
	k.Consistently(taken, 100*time.Millisecond, text("theirs"))
	k.Update(taken, func() { taken.Labels["left"] = "by-us" })
	k.Eventually(s, testkit.Ready())
	k.Eventually(taken, text("hello"))
}
