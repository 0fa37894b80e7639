package explore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
)

// A baseline step of a polling operator is over only after the operator has listed again. This operator lists every 2.5 s
// and creates a Secret for each ConfigMap.
func TestPollingOperator(t *testing.T) {
	t.Parallel()
	write := func(text string) explore.Step {
		return kitadapter.Step("write "+text, func(k *testkit.K) {
			k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "letter"}, Data: map[string]string{"text": text}})
		})
	}
	r := run(t, explore.Options{
		Opener: kitadapter.Open, Name: "polls", Timeout: testkit.DefaultTimeout, Seed: 1, Faults: []string{"down", "crash-after"},
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(setupPolling(k.Namespace), append(opts, testkit.WithConfig(k.Config))...)
		}),
		Steps: []explore.Step{write("hello"), write("goodbye")},
	})
	if got := violationsOf(r); len(got) > 0 || len(r.Runs) < 8 {
		t.Errorf("of %d runs, this was found: %v\n%s", len(r.Runs), got, text(t, r))
	}
}

// Two steps cannot be combined if the first waits for the operator. The plan is reported as untried, and it is no
// violation.
func TestBlockedStepIsUntried(t *testing.T) {
	t.Parallel()
	letter := func(text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "letter"}, Data: map[string]string{"text": text}}
	}
	r := run(t, explore.Options{
		Opener: kitadapter.Open, Name: "waits", Timeout: testkit.DefaultTimeout, Seed: 1,
		SelectPlan: func(plan string) bool { return plan == "down@write+write-again" },
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(setupPolling(k.Namespace), append(opts, testkit.WithConfig(k.Config))...)
		}),
		Steps: []explore.Step{
			kitadapter.Step("write", func(k *testkit.K) {
				k.Apply(letter("hello"))
				k.Eventually(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sealed-letter"}}, testkit.Exists())
			}),
			kitadapter.Step("write again", func(k *testkit.K) { k.Apply(letter("goodbye")) }),
		},
	})
	last := r.Runs[len(r.Runs)-1]
	got := violationsOf(r)
	if len(got) > 0 || last.Name != "down@write+write-again" || !strings.Contains(last.UntriedReason, "waits") {
		t.Errorf("found %v, and of %s: %q\n%s", got, last.Name, last.UntriedReason, text(t, r))
	}
}

func setupPolling(namespace string) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		live, err := client.New(mgr.GetConfig(), client.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		})
		if err != nil {
			return err
		}
		look := func(ctx context.Context) error {
			var letters corev1.ConfigMapList
			if err := live.List(ctx, &letters, client.InNamespace(namespace)); err != nil {
				return err
			}
			for _, letter := range letters.Items {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sealed-" + letter.Name}}
				if _, err := controllerutil.CreateOrUpdate(ctx, live, secret, func() error {
					secret.Data = map[string][]byte{"text": []byte(letter.Data["text"])}
					return controllerutil.SetControllerReference(&letter, secret, mgr.GetScheme())
				}); err != nil {
					return err
				}
			}
			return nil
		}
		return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			for {
				_ = look(ctx) // the next attempt may succeed
				select {
				case <-time.After(2500 * time.Millisecond):
				case <-ctx.Done():
					return nil
				}
			}
		}))
	}
}
