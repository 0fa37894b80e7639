package explore_test

import (
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
)

// slowStart is a transport that delays the requests of informers for the existing objects.
type slowStart struct{ next http.RoundTripper }

func (s slowStart) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("sendInitialEvents") == "true" {
		select {
		case <-time.After(3 * time.Second):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	return s.next.RoundTrip(req)
}

// On a busy machine an operator may need longer for its start than the quiet period. The first step of a baseline run is
// over only when the operator has reconciled it.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	sendsLate := testkit.WithManagerOptions(func(o *manager.Options) {
		o.NewCache = func(cfg *rest.Config, opts cache.Options) (cache.Cache, error) {
			opts.HTTPClient = &http.Client{Transport: slowStart{opts.HTTPClient.Transport}}
			return cache.New(cfg, opts)
		}
	})
	respondsLate := func(next http.RoundTripper) http.RoundTripper { return slowStart{next} }
	for name, isSent := range map[string]bool{"requests are sent late": false, "responses are late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := causeOptions(nil, "error-500")
			o.Timeout = testkit.DefaultTimeout
			o.SelectPlan = func(name string) bool { return name == "error-500/create-configmaps-edge#1" }
			o.Subject = kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
				cfg := rest.CopyConfig(k.Config)
				if isSent {
					cfg.Wrap(respondsLate)
				} else {
					opts = append(opts, sendsLate)
				}
				return k.Start((&causeOperator{}).setup, append(opts, testkit.WithConfig(cfg))...)
			})
			r := run(t, o)
			if got := violationsOf(r); len(got) > 0 {
				t.Errorf("found %v\n%s", got, text(t, r))
			}
			if runs := len(r.Runs); runs != 4 {
				t.Errorf("%d runs, want three without a fault and one with it\n%s", runs, text(t, r))
			}
		})
	}
}
