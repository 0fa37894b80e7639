package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/sdk/bench/work"
)

// requests counts the API server's requests for the benchmark's resources, by verb, resource and subresource, such as
// "PATCH databases/status". Watches are not counted, because they are long-running.
type requests map[string]float64

// isCounted reports whether candidates write the resource. Events are included, because a candidate may create some.
func isCounted(resource string) bool {
	switch resource {
	case "databases", "statefulsets", "services", "persistentvolumeclaims", "cronjobs", "events":
		return true
	default:
		return false
	}
}

func countRequests(ctx context.Context, c rest.Interface) (requests, error) {
	const name = "apiserver_request_total"
	metrics, err := readMetrics(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return countByKind(metrics), nil
}

// isWatched reports whether any client watches Databases.
func isWatched(ctx context.Context, c rest.Interface) (bool, error) {
	metrics, err := readMetrics(ctx, c, "apiserver_longrunning_requests")
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(metrics, func(m *dto.Metric) bool {
		return labels(m)["resource"] == work.Resource.Resource && m.GetUntyped().GetValue() > 0
	}), nil
}

// readMetrics returns the values of one of the API server's metrics.
func readMetrics(ctx context.Context, c rest.Interface, name string) ([]*dto.Metric, error) {
	raw, err := c.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	return parseMetrics(raw, name)
}

func parseMetrics(raw []byte, name string) ([]*dto.Metric, error) {
	var kept bytes.Buffer // there are ten thousand other lines
	for line := range bytes.Lines(raw) {
		if bytes.HasPrefix(line, []byte(name+"{")) {
			kept.Write(line)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&kept)
	if err != nil {
		return nil, fmt.Errorf("parsing the API server's metrics: %w", err)
	}
	return families[name].GetMetric(), nil
}

func labels(m *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, l := range m.GetLabel() {
		all[l.GetName()] = l.GetValue()
	}
	return all
}

func countByKind(metrics []*dto.Metric) requests {
	counted := requests{}
	for _, m := range metrics {
		l := labels(m)
		if !isCounted(l["resource"]) || l["verb"] == "WATCH" {
			continue
		}
		kind := l["verb"] + " " + l["resource"]
		if s := l["subresource"]; s != "" {
			kind += "/" + s
		}
		counted[kind] += m.GetUntyped().GetValue() // without TYPE lines the values are untyped
	}
	return counted
}

// since returns the difference to an earlier count, without these kinds of requests.
func (r requests) since(before requests, without ...string) requests {
	d := requests{}
	for kind, n := range r {
		if n > before[kind] {
			d[kind] = n - before[kind]
		}
	}
	for _, kind := range without {
		delete(d, kind)
	}
	return d
}

// sinceStart is like since, without the LIST requests that fill caches.
func (r requests) sinceStart(before requests, without ...string) requests {
	d := r.since(before, without...)
	maps.DeleteFunc(d, func(kind string, _ float64) bool { return strings.HasPrefix(kind, "LIST ") })
	return d
}

func (r requests) sum() (n float64) {
	for _, count := range r {
		n += count
	}
	return n
}

func (r requests) String() string {
	if len(r) == 0 {
		return "none"
	}
	return fmt.Sprint(map[string]float64(r))
}
