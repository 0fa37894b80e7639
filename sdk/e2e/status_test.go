package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestStatusIsWrittenOncePerPass(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(func(ctx context.Context, p *pass) error {
		p.SetCondition("Told", metav1.ConditionTrue, "Said", "the text is %s", p.Object.Spec.Text)
		p.Object.Status.Seen = p.Object.Generation
		return oneChild(ctx, p)
	}))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	for _, want := range []struct {
		text string
		sent []string
	}{
		{"new", []string{"apply configmaps a -> 200", "patch sites.e2e.homeostat.dev/status a -> 200"}},
		{"newer", []string{"apply configmaps a -> 200", "patch sites.e2e.homeostat.dev/status a -> 200"}},
	} {
		running.Recorder().Reset()
		k.Update(s, func() { s.Spec.Text = want.text })
		k.Eventually(s, testkit.Ready())
		if diff := cmp.Diff(want.sent, sent(k, running)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
	for _, c := range s.Status.Conditions {
		if c.ObservedGeneration != s.Generation {
			t.Errorf("condition %s is of generation %d, and the object is at %d", c.Type, c.ObservedGeneration, s.Generation)
		}
	}
	if s.Status.ObservedGeneration != s.Generation || s.Status.Seen != s.Generation {
		t.Errorf("status %+v is not of generation %d", s.Status, s.Generation)
	}
}

func TestTransitionTimeChangesWithStatusOnly(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(_ context.Context, p *pass) error {
		if text := p.Object.Spec.Text; text == "hello" || text == "other" {
			p.SetNotReady("Text"+strings.ToUpper(text[:1]), "the text is %s", text)
		}
		return nil
	})
	op.Summarize = func(s *site.Site) {
		switch s.Spec.Text { // the reconcile reported Ready for both
		case "closed":
			conditions.MarkReconciling(s, "Closed", "the summary says so")
		case "bug":
			panic("of Summarize")
		}
	}
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "TextH"))
	waitIdle(k, running, quietPeriod)
	running.Stop()
	long := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	k.UpdateStatus(s, func() { conditions.Get(s, conditions.Ready).LastTransitionTime = long })
	start(k, op)

	for text, reason := range map[string]string{"other": "TextO", "closed": "Closed", "bug": "Panic"} {
		k.Update(s, func() { s.Spec.Text = text })
		k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, reason))
		if got := conditions.Get(s, conditions.Ready).LastTransitionTime; !got.Equal(&long) {
			t.Errorf("the transition time moved to %v although the status is the same: %s", got, reason)
		}
	}
	k.Update(s, func() { s.Spec.Text = "ready" })
	k.Eventually(s, testkit.Ready())
	if got := conditions.Get(s, conditions.Ready).LastTransitionTime; time.Since(got.Time) > time.Minute {
		t.Errorf("the transition time is still %v although the status flipped", got)
	}
}

// The test checks every stored state.
func TestReadyOnlyWhileChildrenAreReady(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k, operator(func(_ context.Context, p *pass) error {
		d := deployment(p.Object)
		d.Spec.Template.Spec.Containers[0].Image = p.Object.Spec.Text
		sdk.Apply(p, d)
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	states := collectStates(t, k)
	d := named(&appsv1.Deployment{}, s.Name)
	for _, image := range []string{"hello", "one", "two"} {
		k.Update(s, func() { s.Spec.Text = image })
		k.Eventually(d, testkit.Match("image", func(d *appsv1.Deployment) bool {
			return d.Spec.Template.Spec.Containers[0].Image == image
		}))
		k.Eventually(s, testkit.Condition(conditions.Ready, metav1.ConditionFalse))
		makeAvailable(k, d)
		k.Eventually(s, testkit.Ready())
	}
	k.UpdateStatus(d, func() { d.Status.AvailableReplicas = 0 })
	k.Eventually(s, testkit.Condition(conditions.Ready, metav1.ConditionFalse))
	requireNotReadyBetween(t, states(s.ResourceVersion), 3)
}

// collectStates collects every state of the test's sites. The returned function waits for a resourceVersion and returns
// them.
func collectStates(t *testing.T, k *testkit.K) func(until string) []*site.Site {
	t.Helper()
	w, err := k.Client.Watch(k.Context(), &site.List{}, client.InNamespace(k.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return func(until string) []*site.Site {
		var all []*site.Site
		for event := range w.ResultChan() {
			s, ok := event.Object.(*site.Site)
			if !ok {
				t.Fatalf("watching: %v", event.Object)
			}
			all = append(all, s)
			if s.ResourceVersion == until {
				return all
			}
		}
		t.Fatal("watching: the watch ended")
		return nil
	}
}

// requireNotReadyBetween checks that between two Ready states of different generations there is one that is not Ready.
func requireNotReadyBetween(t *testing.T, states []*site.Site, want int) {
	t.Helper()
	ready, flips, generation := false, 0, int64(0)
	for _, s := range states {
		now := conditions.IsTrue(s, conditions.Ready)
		if now && ready && s.Generation != generation {
			t.Errorf("generation %d was called ready at once, while its Deployment was not", s.Generation)
		}
		if now && !ready {
			flips++
		}
		if c := conditions.Get(s, conditions.Ready); c != nil && c.ObservedGeneration == s.Generation {
			ready, generation = now, s.Generation
		}
	}
	if flips != want {
		t.Errorf("the object became ready %d times, want %d", flips, want)
	}
}

// makeAvailable writes the status of an available Deployment, as its controller would.
func makeAvailable(k *testkit.K, d *appsv1.Deployment) {
	k.UpdateStatus(d, func() {
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		}
	})
}

func TestMessagesAreBoundedAndStable(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(_ context.Context, p *pass) error {
		for i := range 30 {
			sdk.Apply(p, configMap(p.Object, fmt.Sprintf("%s-%02d", strings.Repeat("long", 20), i)),
				sdk.ReadyWhen(func(*corev1.ConfigMap) (bool, string) { return false, strings.Repeat("not at all ", 200) }))
		}
		return nil
	})
	op.Resync = 20 * time.Millisecond
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Progressing"))
	waitIdle(k, running, quietPeriod)
	running.Recorder().Reset()
	if got := sent(k, running); len(got) > 0 {
		t.Errorf("requests although nothing changed: %v", got)
	}
	k.Get(s)
	_, _, message := condition(s, conditions.Ready)
	if len(message) > conditions.MaxMessage {
		t.Errorf("the message has %d bytes, more than %d", len(message), conditions.MaxMessage)
	}
}

func TestSecretValuesAreNotReported(t *testing.T) {
	t.Parallel()
	for _, code := range []int32{http.StatusUnprocessableEntity, http.StatusForbidden, http.StatusBadRequest} {
		t.Run(http.StatusText(int(code)), func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t, testkit.WithoutOracles("the Secret is rejected", testkit.Refused, testkit.Forbidden))
			reasons := map[int32]metav1.StatusReason{
				http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusForbidden: metav1.StatusReasonForbidden,
				http.StatusBadRequest: metav1.StatusReasonBadRequest,
			}
			f := &faults{before: func(req *http.Request) (*http.Response, error) {
				if isApply(req, "secrets") {
					return response(req, metav1.Status{Code: code, Reason: reasons[code], Message: "hunter2 is too short"}), nil
				}
				return nil, nil //nolint:nilnil // no response: the request goes to the server
			}}
			running := start(k, operator(func(_ context.Context, p *pass) error {
				sdk.Apply(p, &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Name: "credentials"}, StringData: map[string]string{"password": "hunter2"},
				})
				return nil
			}), f.config(k))
			s := newSite("a")
			k.Apply(s)
			k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "SecretRejected"))
			waitIdle(k, running, quietPeriod)
			events := &corev1.EventList{}
			if err := k.Client.List(k.Context(), events, client.InNamespace(k.Namespace)); err != nil {
				t.Fatal(err)
			}
			if reported := fmt.Sprint(s.Status, events.Items); strings.Contains(reported, "hunter2") {
				t.Errorf("the secret was reported: %s", reported)
			}
		})
	}
}

// Events of one reason in one reconcile are merged, because Kubernetes would keep only the first.
func TestEventsOfOneReasonAreMerged(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k, operator(func(_ context.Context, p *pass) error {
		p.Object.Status.Seen = p.Object.Generation
		for _, text := range []string{"first", "second", "first", p.Object.Spec.Text} {
			p.Event("Told", "the %s", text)
		}
		p.Event("Other", "this")
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	waitForEvent(k, s, "Told")
	waitForEvent(k, s, "Other")
	events := &corev1.EventList{}
	if err := k.Client.List(k.Context(), events, client.InNamespace(k.Namespace)); err != nil {
		t.Fatal(err)
	}
	notes := map[string]string{}
	for _, e := range events.Items {
		notes[e.Reason] = e.Message
	}
	want := []string{"the first; the second; the hello", "this"}
	if diff := cmp.Diff(want, []string{notes["Told"], notes["Other"]}); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// Of the changes that Reconcile makes to the object, only the status is written.
func TestSpecAndMetadataAreNeverWritten(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, "child"))
		p.Object.Spec.Text = "changed"
		p.Object.Labels = map[string]string{"changed": "yes"}
		p.Object.Finalizers = []string{"changed.example.com/x"}
		p.Object.Generation = 99
		p.Object.ResourceVersion = "1"
		p.Object.UID = "changed"
		p.Object.Name = "changed"
		p.Object.Status.Seen = 7
		return nil
	})
	op.Finalize = func(_ context.Context, p *pass) error {
		p.Object.Finalizers = nil
		p.Object.ResourceVersion = "1"
		return nil
	}
	running := start(k, op)
	s := newSite("a")
	s.Finalizers = []string{theirFinalizer}
	k.Apply(s)
	k.Eventually(s, testkit.Ready(), finalizers(ourFinalizer, theirFinalizer),
		testkit.Match("unchanged but for its status", func(s *site.Site) bool {
			return s.Spec == site.Spec{Text: "hello"} && len(s.Labels) == 0 && s.Status.Seen == 7 && s.Generation == 1
		}))
	k.Eventually(named(&corev1.ConfigMap{}, "child"), testkit.Match("ours", func(c *corev1.ConfigMap) bool {
		return metav1.IsControlledBy(c, s) && c.OwnerReferences[0].Name == "a"
	}))
	waitIdle(k, running, quietPeriod)
	k.Delete(s)
	k.Eventually(s, finalizers(theirFinalizer))
	mustPatch(t, k, s, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
}
