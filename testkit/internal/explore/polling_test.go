package explore_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
)

// What comes of a step is not known before an operator that polls has looked again. This one looks every two and a half
// seconds, and makes a Secret of each ConfigMap that is there then.
func TestOperatorThatPolls(t *testing.T) {
	t.Parallel()
	write := func(text string) explore.Step {
		return explore.Step{Name: "write " + text, Do: func(k *testkit.K) {
			k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "letter"}, Data: map[string]string{"text": text}})
		}}
	}
	r := run(t, explore.Options{
		Name: "polls", Patience: testkit.DefaultTimeout, Seed: 1, Faults: []string{"down", "crash-after"},
		Subject: explore.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(setupPolling(k.Namespace), append(opts, testkit.WithConfig(k.Config))...)
		}),
		Steps: []explore.Step{write("hello"), write("goodbye")},
	})
	if got := found(r); len(got) > 0 || len(r.Runs) < 8 {
		t.Errorf("of %d runs, this was found: %v\n%s", len(r.Runs), got, text(t, r))
	}
}

func setupPolling(namespace string) testkit.Setup {
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
				_ = look(ctx) // the next look may do better
				select {
				case <-time.After(2500 * time.Millisecond):
				case <-ctx.Done():
					return nil
				}
			}
		}))
	}
}
