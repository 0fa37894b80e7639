package sequence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// ErrPasses is returned by Shrink for a sequence that does not fail.
var ErrPasses = errors.New("the sequence does not fail, so there is nothing to shrink")

// DefaultCalls is the number of sequences that Shrink tries if ShrinkOptions.Calls is 0.
const DefaultCalls = 500

// ShrinkOptions are the options of Shrink.
type ShrinkOptions struct {
	// Calls bounds the number of sequences tried, the first one included. Zero means DefaultCalls.
	Calls int
}

// Shrunk is the result of Shrink.
type Shrunk struct {
	// Sequence fails. If Complete, it passes without any one of its manifests, with any one difference undone, and without
	// any one field in all of them.
	Sequence Sequence
	// Calls is the number of sequences tried.
	Calls int
	// Complete reports that shrinking ended by itself, not by the number of calls or the context.
	Complete bool
}

// Shrink returns a minimal sequence that still fails: mostly two manifests S and T with a failing step from S to T, or
// a single one. It removes manifests, then undoes differences between them, removes fields from all, and simplifies
// values, in the same order each time.
//
// The function fails has to return false for a sequence that the API server rejects: fields are removed even if they
// are required. It must be deterministic. It gets a copy.
//
// The error is ErrPasses if the sequence passes, or the context's error if that ends before the first answer. If the
// context ends later, Shrink returns the best result so far.
func Shrink(
	ctx context.Context, sequence Sequence, fails func(Sequence) bool, how ShrinkOptions,
) (Shrunk, error) {
	s := &shrinker{ctx: ctx, fails: fails, left: how.Calls, best: sequence.clone(), answers: map[string]bool{}}
	if how.Calls == 0 {
		s.left = DefaultCalls
	}
	budget := s.left
	failing := s.try(s.best)
	if err := ctx.Err(); err != nil && budget == s.left {
		return Shrunk{}, fmt.Errorf("shrinking: %w", err)
	}
	if !failing {
		return Shrunk{Calls: budget - s.left}, ErrPasses
	}
	for seen := map[string]bool{}; !seen[key(s.best)]; {
		seen[key(s.best)] = true
		s.manifests()
		s.differences()
		s.fields()
		s.values()
	}
	return Shrunk{Sequence: s.best, Calls: budget - s.left, Complete: !s.cut}, nil
}

type shrinker struct {
	ctx     context.Context //nolint:containedctx // lives as long as the call of Shrink
	fails   func(Sequence) bool
	left    int // calls
	cut     bool
	best    Sequence
	answers map[string]bool // answers so far
}

// key returns a key that is equal for equal sequences.
func key(s Sequence) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("testkit: a manifest is no JSON: %v", err)) // it was copied as JSON before
	}
	return string(data)
}

// try reports whether the sequence fails. A failing sequence becomes the best one.
func (s *shrinker) try(candidate Sequence) bool {
	id := key(candidate)
	failing, ok := s.answers[id]
	if !ok {
		if s.left <= 0 || s.ctx.Err() != nil {
			s.cut = true
			return false
		}
		s.left--
		failing = s.fails(candidate.clone())
		s.answers[id] = failing
	}
	if failing {
		s.best = candidate
	}
	return failing
}

// manifests removes manifests. A sequence mostly fails at its last step.
func (s *shrinker) manifests() {
	for _, last := range []int{1, 2} {
		if n := len(s.best); n > last && s.try(s.best[n-last:]) {
			return
		}
	}
	whole := s.best
	s.minimize(len(whole), func(keep []int) bool {
		candidate := make(Sequence, len(keep))
		for i, at := range keep {
			candidate[i] = whole[at]
		}
		return len(keep) > 0 && s.try(candidate)
	})
}

// differences undoes the differences between successive manifests: in the later one, and the remaining ones in the
// earlier one.
func (s *shrinker) differences() {
	for i := 1; i < len(s.best); i++ {
		s.approach(i, i-1)
		s.approach(i-1, i)
	}
}

// approach makes one manifest more like another, as long as the sequence has fewer differences afterwards.
func (s *shrinker) approach(at, other int) {
	whole := s.best
	all := schema.Diff(whole[other], whole[at])
	s.minimize(len(all), func(keep []int) bool {
		candidate := slices.Clone(whole)
		candidate[at] = whole[other]
		for _, i := range keep {
			if changed, ok := all[i].Apply(candidate[at]); ok {
				candidate[at] = changed
			}
		}
		return steps(candidate) < steps(whole) && s.try(candidate)
	})
}

// steps returns the number of differences between successive manifests.
func steps(s Sequence) int {
	count := 0
	for i := 1; i < len(s); i++ {
		count += len(schema.Diff(s[i-1], s[i]))
	}
	return count
}

// minimize finds a subset of n items from which none can be removed, by delta debugging: halves first, then ever
// smaller parts. The subset is the last one for which test was true. It is true for all of them.
func (s *shrinker) minimize(n int, test func(keep []int) bool) {
	items := indexes(n)
	if n == 0 || test(nil) {
		return
	}
	for parts := 2; len(items) > 1 && !s.cut; {
		if rest, ok := s.withoutPart(items, parts, test); ok {
			items, parts = rest, max(parts-1, 2)
			continue
		}
		if parts >= len(items) {
			return
		}
		parts = min(parts*2, len(items))
	}
}

// withoutPart removes one of as many parts, the first for which test is true of the rest.
func (s *shrinker) withoutPart(items []int, parts int, test func(keep []int) bool) ([]int, bool) {
	for i := range parts {
		from, to := i*len(items)/parts, (i+1)*len(items)/parts
		rest := slices.Concat(items[:from], items[to:])
		if from < to && len(rest) > 0 && !s.cut && test(rest) {
			return rest, true
		}
	}
	return nil, false
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
