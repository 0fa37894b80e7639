package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestScaleIsCutInGaps(t *testing.T) {
	t.Parallel()
	const ms, s = time.Millisecond, time.Second
	bursts := []time.Duration{ms, 2 * ms, 2 * s, 2*s + ms, 5 * s}
	for name, tc := range map[string]struct {
		reason string
		times  []time.Duration
		cuts   []string
	}{
		"bursts":     {"waiting is cut", bursts, []string{"2ms-2s", "2.001s-5s"}},
		"even":       {"equal gaps are not cut", []time.Duration{s, 2 * s, 3 * s, 4 * s}, nil},
		"one":        {"the gap before a single entry is not cut", []time.Duration{s}, nil},
		"none":       {"an empty timeline has no gap", nil, nil},
		"same":       {"simultaneous entries have no gap", []time.Duration{s, s, s}, nil},
		"short gaps": {"a narrow gap is not cut", []time.Duration{10 * ms, 20 * ms, 30 * ms, 35 * ms}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cuts []string
			for _, st := range newScale(tc.times).segments {
				if st.cut {
					cuts = append(cuts, fmt.Sprintf("%v-%v", st.from, st.to))
				}
			}
			if diff := cmp.Diff(tc.cuts, cuts); diff != "" {
				t.Errorf("%s\ncuts (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestScaleKeepsTheOrder checks random times: a later time is never further left, no time is outside, and the axis is
// linear between cuts.
func TestScaleKeepsTheOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		times := make([]time.Duration, random.IntN(40))
		for i := range times {
			times[i] = time.Duration(math.Pow(10, random.Float64()*19)) - time.Second
		}
		s := newScale(times)
		for range 100 {
			a := time.Duration(math.Pow(10, random.Float64()*18.9))
			b := a + time.Duration(random.Int64N(int64(time.Hour)))
			if x, y := s.at(a), s.at(b); x > y+1e-9 || x < axisStart || y > axisEnd+1e-9 {
				t.Fatalf("seed %d: %v is at %v and %v at %v", seed, a, x, b, y)
			}
		}
		for _, st := range s.segments {
			if got, want := st.width, float64(st.to-st.from)*s.rate; !st.cut && math.Abs(got-want) > 1e-6 {
				t.Fatalf("seed %d: a section of %v is %v wide, want %v", seed, st.to-st.from, got, want)
			}
		}
		for i, tick := range s.ticks() {
			if before := s.ticks()[max(0, i-1)]; i > 0 && tick.x-before.x < cutWidth-1e-6 {
				t.Fatalf("seed %d: tick %v overlaps %v", seed, tick, before)
			}
		}
	}
}

func TestTicksAreRound(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	var got []string
	for _, tick := range newScale([]time.Duration{3 * ms, 7 * ms, 12 * ms, 16 * ms, 21 * ms, 25 * ms}).ticks() {
		got = append(got, offset(tick.at))
	}
	want := []string{"0.000s", "0.005s", "0.010s", "0.015s", "0.020s", "0.025s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("times at the axis (-want +got):\n%s", diff)
	}
}
