package chaos_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// ledger is an external service that gives each name a random identifier: POST /entries/NAME returns it, and DELETE
// /entries/IDENTIFIER removes the entry.
type ledger struct {
	mu    sync.Mutex
	names map[string]string // by identifier
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := strings.TrimPrefix(req.URL.Path, "/entries/")
	if req.Method == http.MethodDelete {
		delete(l.names, name)
		return
	}
	for id, known := range l.names {
		if known == name {
			_, _ = io.WriteString(w, id)
			return
		}
	}
	id := "entry_" + rand.Text()
	l.names[id] = name
	_, _ = io.WriteString(w, id)
}

func (l *ledger) state() any {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for _, name := range l.names {
		counts[name]++
	}
	return counts
}

// booking enters each letter, stores the identifier in an annotation, and removes the entry when the letter is deleted. A
// forgetful operator lets a letter go although the removal has failed.
func booking(url string, forgetful bool) testkit.SetupFunc {
	const finalizer, entry = "chaos.test/entry", "chaos.test/entry-id"
	call := func(ctx context.Context, method, place string) (string, error) {
		req, err := http.NewRequestWithContext(ctx, method, url+"/entries/"+place, nil)
		if err != nil {
			return "", err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		return string(body), errors.Join(err, resp.Body.Close())
	}
	return func(mgr manager.Manager) error {
		c := mgr.GetClient()
		return ctrl.NewControllerManagedBy(mgr).Named("booking").For(&corev1.ConfigMap{}).Complete(reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				var letter corev1.ConfigMap
				if err := c.Get(ctx, req.NamespacedName, &letter); err != nil || letter.Name != "letter" {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				switch id := letter.Annotations[entry]; {
				case !letter.DeletionTimestamp.IsZero():
					if id != "" {
						if _, err := call(ctx, http.MethodDelete, id); err != nil && !forgetful {
							return reconcile.Result{}, err
						}
					}
					if !controllerutil.RemoveFinalizer(&letter, finalizer) {
						return reconcile.Result{}, nil
					}
				case controllerutil.AddFinalizer(&letter, finalizer):
				case id != "":
					return reconcile.Result{}, nil
				default:
					id, err := call(ctx, http.MethodPost, letter.Name)
					if err != nil {
						return reconcile.Result{}, err
					}
					letter.Annotations = map[string]string{entry: id}
				}
				return reconcile.Result{}, client.IgnoreNotFound(c.Update(ctx, &letter))
			}))
	}
}

// A request whose path has an identifier that the service has generated gets faults, too.
func TestSweepExternalIdentifiers(t *testing.T) {
	t.Parallel()
	const variable = "TESTKIT_CHAOS_EXTERNAL_IDENTIFIERS"
	if operator := os.Getenv(variable); operator != "" {
		chaos.Sweep(t, chaos.Each(func(k *testkit.K) testkit.Runnable {
			l := &ledger{names: map[string]string{}}
			return chaos.FromSetup(booking(k.External(l, l.state).URL, operator == "forgetful"))
		}), chaos.Scenario{writing("hello")}, chaos.Faults{chaos.External})
		return
	}
	for operator, want := range map[string]string{
		"correct":   "--- PASS: TestSweepExternalIdentifiers/external-refused/external-delete-entries.$ID#1 ",
		"forgetful": "the 1st DELETE /entries/$ID to the external service did not reach the service",
	} {
		t.Run(operator, func(t *testing.T) {
			t.Parallel()
			sweepInChild(t, "TestSweepExternalIdentifiers", variable+"="+operator, operator == "correct", want)
		})
	}
}
