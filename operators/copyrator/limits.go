package copyrator

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/policy"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// sizes holds the sizes of what rules copy of sources, so that the passes of all rules of a namespace read each version of a
// source once for each rule. It is safe for concurrent use.
type sizes struct {
	mu    sync.Mutex
	known map[sizeKey]sourceSize
	swept time.Time
}

type sizeKey struct{ rule, source types.UID }

type sourceSize struct {
	version string
	bytes   int64
	used    time.Time
}

// sizeTTL is the time after which the size of an unused source is dropped. A later use costs one request.
const sizeTTL = time.Hour

// sizeVersion identifies the state of a source and of a rule.
func sizeVersion(rule *v1.CopyratorRule, o *metav1.PartialObjectMetadata) string {
	return o.ResourceVersion + " " + strconv.FormatInt(rule.Generation, 10)
}

func (s *sizes) get(rule *v1.CopyratorRule, o *metav1.PartialObjectMetadata) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sizeKey{rule.UID, o.UID}
	known, ok := s.known[key]
	if !ok || known.version != sizeVersion(rule, o) {
		return 0, false
	}
	known.used = time.Now()
	s.known[key] = known
	return known.bytes, true
}

func (s *sizes) put(rule *v1.CopyratorRule, o *metav1.PartialObjectMetadata, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.known == nil || now.Sub(s.swept) > sizeTTL {
		fresh := map[sizeKey]sourceSize{}
		for key, known := range s.known {
			if now.Sub(known.used) < sizeTTL {
				fresh[key] = known
			}
		}
		s.known = fresh
		s.swept = now
	}
	s.known[sizeKey{rule.UID, o.UID}] = sourceSize{sizeVersion(rule, o), bytes, now}
}

// allowance returns what a rule outside of the operator's namespace may use: the limits without the usage of the older rules
// in its namespace. Their sources are those of one tenant, so an error of them concerns this tenant alone.
func (c *copyrator) allowance(ctx context.Context, p *pass, older []peer, n *policy.Namespaces) (policy.Allowance, error) {
	var used policy.Usage
	for _, other := range older {
		found, err := c.findSources(p, other.Rule, n)
		if errors.Is(err, sdk.ErrNotSynced) {
			return policy.Allowance{}, err
		}
		found.Sources = c.limits.LimitSources(found.Sources)
		size, err := c.measure(ctx, p, other, found.Sources)
		if err != nil {
			return policy.Allowance{}, err
		}
		used = used.Add(c.limits.Cap(found.WantedUsage(n, size)))
	}
	return c.limits.Allow(len(older), used), nil
}

// measure returns the sizes of the sources of a rule. A source that cannot be read has none: it has no copies either.
func (c *copyrator) measure(
	ctx context.Context, p *pass, of peer, sources []*metav1.PartialObjectMetadata,
) (func(*metav1.PartialObjectMetadata) int64, error) {
	for _, o := range sources {
		if _, ok := c.sizes.get(of.object, o); ok {
			continue
		}
		var full client.Object
		var err error
		if of.Kind == "Secret" {
			full, err = sdk.GetLive[*corev1.Secret](ctx, p, o)
		} else {
			full, err = sdk.GetLive[*corev1.ConfigMap](ctx, p, o)
		}
		switch {
		case errors.Is(err, apply.ErrStale):
			return nil, err
		case err == nil:
			c.sizes.put(of.object, o, desired.NewContentDigest(desired.Content(of.Rule, full)).Size)
		}
	}
	return func(o *metav1.PartialObjectMetadata) int64 {
		bytes, _ := c.sizes.get(of.object, o)
		return bytes
	}, nil
}
