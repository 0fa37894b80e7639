package proxy_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/proxy"
)

// comparison measures GETs alternately, so that other load on the machine affects both alike.
type comparison struct {
	clients map[string]*http.Client
	urls    map[string]string
	took    map[string][]time.Duration
}

func newPair(t testing.TB) *comparison {
	t.Helper()
	k := testkit.New(t)
	k.Apply(newConfigMap("x", 1000))
	p := start(t, proxy.Options{Target: k.Config})
	s := &comparison{clients: map[string]*http.Client{}, urls: map[string]string{}, took: map[string][]time.Duration{}}
	for name, cfg := range map[string]*rest.Config{"direct": k.Config, "proxied": config(t, p, "operator")} {
		c, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.clients[name], s.urls[name] = c, cfg.Host+"/api/v1/namespaces/"+k.Namespace+"/configmaps/x"
	}
	s.measure(t) // the first ones open connections
	clear(s.took)
	return s
}

func (s *comparison) measure(t testing.TB) {
	t.Helper()
	for name, c := range s.clients {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.urls[name], http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = read(t, resp)
		if s.took[name] = append(s.took[name], time.Since(began)); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
}

func (s *comparison) median(name string) time.Duration {
	slices.Sort(s.took[name])
	return s.took[name][len(s.took[name])/2]
}

// BenchmarkGet aims at no more than 2 ms between the medians.
func BenchmarkGet(b *testing.B) {
	s := newPair(b)
	for b.Loop() {
		s.measure(b)
	}
	direct, proxied := s.median("direct"), s.median("proxied")
	b.ReportMetric(float64(direct.Microseconds()), "direct-p50-µs")
	b.ReportMetric(float64(proxied.Microseconds()), "proxied-p50-µs")
	b.ReportMetric(float64((proxied - direct).Microseconds()), "added-p50-µs")
}

// TestLatency has a bound far above the result of BenchmarkGet. It suits busy machines, and finds waits.
func TestLatency(t *testing.T) {
	t.Parallel()
	s := newPair(t)
	for range 100 {
		s.measure(t)
	}
	added := s.median("proxied") - s.median("direct")
	t.Logf("direct %v, proxied %v", s.median("direct"), s.median("proxied"))
	if added > 25*time.Millisecond {
		t.Errorf("the proxy adds %v to the median of a GET", added)
	}
}
