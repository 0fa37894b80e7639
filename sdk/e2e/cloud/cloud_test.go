package cloud

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/external"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{CRDs: "testdata/crd", AddToScheme: AddToScheme})
}

// quiet is the time for which something must not happen.
const quiet = 500 * time.Millisecond

func newSite(size int, logs bool) *Site {
	return &Site{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: Spec{Size: size, Logs: logs}}
}

// start starts the operator with a cloud of its own.
func start(k *testkit.K) (*cloud, Client) {
	c := newCloud()
	client := Client{k.External(c, c.state).URL}
	k.Run(New(client.Buckets()))
	return c, client
}

func newSecret(account, token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud"},
		Data:       map[string][]byte{"account": []byte(account), "token": []byte(token)},
	}
}

// newSiteWithSecret returns a site with the credentials in a Secret.
func newSiteWithSecret(size int, logs bool) *Site {
	site := newSite(size, logs)
	site.Spec.SecretName = "cloud"
	return site
}

// sweep tries faults on the operator.
func sweep(t *testing.T, scenario chaos.Scenario, faults chaos.Faults) {
	t.Helper()
	operator := chaos.Each(func(k *testkit.K) testkit.Runnable {
		c := newCloud()
		return New(Client{k.External(c, c.state).URL}.Buckets())
	})
	chaos.Sweep(t, operator, scenario, faults)
}

// Each fault is tried at the requests of the API server and of the cloud: there is one bucket for each purpose, and none
// after the deletion.
func TestFaults(t *testing.T) {
	t.Parallel()
	sweep(t, chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) { k.Apply(newSite(1, true)) }},
		{Name: "resize", Do: func(k *testkit.K) { k.Apply(newSite(2, true)) }},
		{Name: "remove the logs", Do: func(k *testkit.K) { k.Apply(newSite(2, false)) }},
	}, chaos.All)
}

// The same with credentials that change. A namespace that is deleted with its Secrets is no fault here: see
// TestDeletionWithoutCredentials.
func TestFaultsWithCredentials(t *testing.T) {
	t.Parallel()
	sweep(t, chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) {
			k.Apply(newSecret("us", "one"))
			k.Apply(newSiteWithSecret(1, false))
		}},
		{Name: "rotate and resize", Do: func(k *testkit.K) {
			k.Apply(newSecret("us", "two"))
			k.Apply(newSiteWithSecret(2, false))
		}},
	}, chaos.Faults{chaos.LostResponse, chaos.External, chaos.Failover, chaos.Missed})
}

// A bucket in its desired state causes no request, also after a restart.
func TestAtRest(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	c := newCloud()
	operator := New(Client{k.External(c, c.state).URL}.Buckets())
	p := k.Run(operator)
	site := newSite(1, true)
	k.Apply(site)
	k.Eventually(site, testkit.Ready())
	before := c.count()
	p.Stop()
	k.Run(operator)
	k.Update(site, func() { site.Labels = map[string]string{"touched": "yes"} })
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: site.Name}}
	k.Get(cm)
	k.Delete(cm)
	k.Eventually(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: site.Name}}, testkit.Match("a new one",
		func(now *corev1.ConfigMap) bool { return now.UID != cm.UID })) // the operator has reconciled
	k.Consistently(site, quiet, testkit.Match("no other request", func(*Site) bool { return c.count() == before }))
}

// In each state in which the object is ready, a field of the status that Reconcile sets from an output is set.
func TestReadyAfterOutputsWereRead(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	c := newCloud()
	c.pending = 0
	k.Run(New(Client{k.External(c, c.state).URL}.Buckets()))
	site := newSite(1, false)
	k.Apply(site)
	k.Eventually(site, testkit.Ready())
	k.Update(site, func() { site.Spec.Logs = true })
	k.Eventually(site, testkit.Ready())
	ready := 0
	for _, state := range k.States(site) {
		var s Site
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(state.Object, &s); err != nil {
			t.Fatal(err)
		}
		if c := conditions.Get(&s, conditions.Ready); c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == 2 {
			ready++
			if s.Status.LogsAddress == "" {
				t.Errorf("version %s of the site is ready without the address of the bucket for logs", s.ResourceVersion)
			}
		}
	}
	if ready == 0 {
		t.Error("no state of the site is ready")
	}
}

// A rejected input stalls the object until the input changes.
func TestRejected(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	c, _ := start(k)
	site := newSite(101, false)
	k.Apply(site)
	k.Eventually(site, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "ExternalRejected"))
	if message := conditions.Get(site, conditions.Ready).Message; !strings.Contains(message, "a bucket has at most 100") {
		t.Errorf("the message is %q", message)
	}
	before := c.count()
	k.Update(site, func() { site.Labels = map[string]string{"touched": "yes"} })
	k.Consistently(site, quiet, testkit.Match("no repetition", func(*Site) bool { return c.count() == before }))
	k.Update(site, func() { site.Spec.Size = 100 })
	k.Eventually(site, testkit.Ready())
	k.Eventually(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, testkit.Exists())
}

// Creations that can neither be repeated nor found wait for a person when their outcome is not known.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for name, exists := range map[string]bool{"Created": true, "NotCreated": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			c := newCloud()
			client := Client{k.External(c, c.state).URL}
			lose := make(chan bool, 1)
			lose <- exists
			buckets := client.Buckets()
			byToken, _ := buckets.API.(external.ByToken[Bucket])
			buckets.API = external.AtMostOnce[Bucket]{
				Operations: byToken.Operations,
				Create:     loseOnce(lose, byToken.Create),
			}
			k.Run(New(buckets))
			site := newSite(1, false)
			k.Apply(site)
			k.Eventually(site, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "ExternalOutcomeUnknown"))
			k.Consistently(site, quiet, testkit.Match("no repetition", func(s *Site) bool { return s.Status.External[0].ID == "" }))
			answer := site.Status.External[0].Request.Attempt + "=none"
			if exists {
				answer = site.Status.External[0].Request.Attempt + "=" + c.onlyID()
			}
			k.Update(site, func() { site.Annotations = map[string]string{"external.homeostat.dev/bucket.data": answer} })
			k.Eventually(site, testkit.Ready())
			if got := fmt.Sprint(c.state()); got != "[1]" {
				t.Errorf("the buckets have sizes %s, want one with 1", got)
			}
			k.Delete(site)
			k.Eventually(site, testkit.Gone())
			if got := fmt.Sprint(c.state()); got != "[]" {
				t.Errorf("buckets remain: %s", got)
			}
		})
	}
}

// While it is not known whether a creation was carried out, the condition says until when.
func TestMessageOfUncertainCreation(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	c := newCloud()
	buckets := Client{k.External(c, c.state).URL}.Buckets()
	byToken, _ := buckets.API.(external.ByToken[Bucket])
	buckets.API = external.ByTag[Bucket]{
		Operations: byToken.Operations,
		Create: func(context.Context, string, Bucket) (external.State, error) {
			return external.State{}, errors.New("the answer is lost")
		},
		Find: func(context.Context, string) (external.State, error) { return external.State{}, external.ErrNotFound },
	}
	buckets.MaxLatency = time.Hour
	k.Run(New(buckets))
	site := newSite(1, false)
	k.Apply(site)
	k.Eventually(site, testkit.Match("the time in the message", func(s *Site) bool {
		ready := conditions.Get(s, conditions.Ready)
		if ready == nil || ready.Reason != "ExternalPending" || s.Status.External[0].Request == nil {
			return false
		}
		until := s.Status.External[0].Request.Time.Add(buckets.MaxLatency + buckets.ReadDelay + 10*time.Second)
		return strings.Contains(ready.Message, "not certain before "+until.UTC().Format(time.RFC3339))
	}))
}

// A panic of a function of the kind concerns its object alone, and does not lose the record of the resource.
func TestPanic(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("the functions panic on purpose", testkit.Panic))
	c := newCloud()
	buckets := Client{k.External(c, c.state).URL}.Buckets()
	byToken, _ := buckets.API.(external.ByToken[Bucket])
	create := byToken.Create
	byToken.Create = func(ctx context.Context, token string, b Bucket) (external.State, error) {
		if s, err := create(ctx, token, b); b.Size != 13 {
			return s, err
		}
		panic("thirteen")
	}
	buckets.API = byToken
	k.Run(New(buckets))
	site := newSite(13, false)
	k.Apply(site)
	k.Eventually(site, testkit.Match("a panic", func(s *Site) bool {
		c := conditions.Get(s, conditions.Ready)
		return c != nil && strings.Contains(c.Message, "thirteen") && len(s.Status.External) == 1
	}))
	other := newSite(1, false)
	other.Name = "other"
	k.Apply(other)
	k.Eventually(other, testkit.Ready())
}

// A reconcile may return before it has applied its children, to wait for a bucket. Other buckets stay meanwhile.
func TestReconcileWaits(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	c := newCloud()
	buckets := Client{k.External(c, c.state).URL}.Buckets()
	operator := New(buckets)
	reconcile := operator.Reconcile
	operator.Reconcile = func(ctx context.Context, p *sdk.Pass[*Site]) error {
		if p.Object.Spec.Size == 2 {
			extra := sdk.External(p, buckets, "extra", Bucket{Size: 5})
			return sdk.Wait("Extra", "the extra bucket is %s", extra.Phase)
		}
		return reconcile(ctx, p)
	}
	k.Run(operator)
	site := newSite(1, true)
	k.Apply(site)
	k.Eventually(site, testkit.Ready())
	k.Update(site, func() { site.Spec.Size = 2 })
	k.Eventually(site, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Extra"),
		testkit.Match("an extra bucket", func(s *Site) bool {
			return len(s.Status.External) == 3 && s.Status.External[2].IsReady()
		}))
	if got := fmt.Sprint(c.state()); got != "[1 1 5]" {
		t.Errorf("the buckets have sizes %s, want 1, 1 and 5", got)
	}
	k.Update(site, func() { site.Spec.Size = 3 })
	k.Eventually(site, testkit.Ready())
	if got := fmt.Sprint(c.state()); got != "[1 3]" {
		t.Errorf("the buckets have sizes %s, want 1 and 3", got)
	}
}

// An object that is being deleted waits until its bucket is gone.
func TestDeletionWaits(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	c := newCloud()
	client := Client{k.External(c, c.state).URL}
	buckets := client.Buckets()
	byToken, _ := buckets.API.(external.ByToken[Bucket])
	allowed := make(chan struct{})
	remove := byToken.Delete
	byToken.Delete = deleteWhen(allowed, remove)
	buckets.API = byToken
	k.Run(New(buckets))
	site := newSite(1, false)
	k.Apply(site)
	k.Eventually(site, testkit.Ready())
	k.Delete(site)
	k.Eventually(site, testkit.Match("a failing deletion", func(s *Site) bool {
		c := conditions.Get(s, conditions.Deleting)
		return c != nil && strings.Contains(c.Message, "bucket data: not now")
	}))
	k.Consistently(site, quiet, testkit.Exists())
	close(allowed)
	k.Eventually(site, testkit.Gone())
	if got := fmt.Sprint(c.state()); got != "[]" {
		t.Errorf("buckets remain: %s", got)
	}
}

// loseOnce loses the answer of the first creation, which is carried out if the channel says so.
func loseOnce(
	lose <-chan bool, create func(context.Context, string, Bucket) (external.State, error),
) func(context.Context, Bucket) (external.State, error) {
	return func(ctx context.Context, b Bucket) (external.State, error) {
		token := fmt.Sprint(b, ctx) // none is repeated
		select {
		case carriedOut := <-lose:
			if carriedOut {
				_, _ = create(ctx, token, b)
			}
			return external.State{}, errors.New("the answer is lost")
		default:
			return create(ctx, token, b)
		}
	}
}

// deleteWhen fails deletions until the channel is closed.
func deleteWhen(allowed <-chan struct{}, remove func(context.Context, string) error) func(context.Context, string) error {
	return func(ctx context.Context, id string) error {
		select {
		case <-allowed:
			return remove(ctx, id)
		default:
			return errors.New("not now")
		}
	}
}
