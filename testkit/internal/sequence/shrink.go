package sequence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// ErrPasses is what Shrink returns for a sequence that does not fail.
var ErrPasses = errors.New("the sequence does not fail, so there is nothing to shrink")

// DefaultCalls is how often Shrink tries a sequence unless Shrinking.Calls says otherwise.
const DefaultCalls = 500

// Shrinking says how much to shrink.
type Shrinking struct {
	// Calls bounds how many sequences are tried, the first one included. Zero means DefaultCalls.
	Calls int
}

// Shrunk is what Shrink found.
type Shrunk struct {
	// Sequence fails. If Complete, it passes without any one of its manifests, with any one difference undone, and
	// without any one field in all of them.
	Sequence Sequence
	// Calls is how many sequences were tried.
	Calls int
	// Complete says that neither the number of calls nor the context ended it.
	Complete bool
}

// Shrink looks for the least sequence that still fails: mostly two manifests S and T of which the step from one to the
// other fails, or a single one. It leaves out manifests, then undoes differences between them, removes fields from
// all, and makes values simpler, in the same order each time.
//
// The function fails has to return false for a sequence that the API server refuses: fields are removed whether they
// are required or not. It must give the same answer each time it is asked. It gets a copy.
//
// The error is ErrPasses if the sequence passes, or the context's if that ends before the first answer. A context that
// ends later gives what was found so far.
func Shrink(
	ctx context.Context, sequence Sequence, fails func(Sequence) bool, how Shrinking,
) (Shrunk, error) {
	s := &shrinker{ctx: ctx, fails: fails, left: how.Calls, best: sequence.clone(), known: map[string]bool{}}
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
	ctx   context.Context //nolint:containedctx // lives as long as the call of Shrink
	fails func(Sequence) bool
	left  int // calls
	cut   bool
	best  Sequence
	known map[string]bool // answers so far
}

// key is the same for equal sequences.
func key(s Sequence) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("testkit: a manifest is no JSON: %v", err)) // it was copied as JSON before
	}
	return string(data)
}

// try says whether the sequence fails, and if it does, takes it as the best.
func (s *shrinker) try(candidate Sequence) bool {
	id := key(candidate)
	failing, ok := s.known[id]
	if !ok {
		if s.left <= 0 || s.ctx.Err() != nil {
			s.cut = true
			return false
		}
		s.left--
		failing = s.fails(candidate.clone())
		s.known[id] = failing
	}
	if failing {
		s.best = candidate
	}
	return failing
}

// manifests leaves out manifests. A sequence mostly fails at its last step.
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

// differences undoes what changes from one manifest to the next: in the later one, and what is left in the earlier one.
func (s *shrinker) differences() {
	for i := 1; i < len(s.best); i++ {
		s.approach(i, i-1)
		s.approach(i-1, i)
	}
}

// approach makes one manifest more like another, as long as there are fewer differences in the sequence for it.
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

// steps is how many differences there are from manifest to manifest.
func steps(s Sequence) int {
	count := 0
	for i := 1; i < len(s); i++ {
		count += len(schema.Diff(s[i-1], s[i]))
	}
	return count
}

// minimize looks for a subset of n things of which none can be left out, by delta debugging: halves first, then ever
// smaller parts. The subset is the last one for which test was true. It is true for all of them.
func (s *shrinker) minimize(n int, test func(keep []int) bool) {
	items := indexes(n)
	if n == 0 || test(nil) {
		return
	}
	for parts := 2; len(items) > 1 && !s.cut; {
		if rest, ok := s.withoutPart(items, parts, test); ok {
			items, parts = rest, max(parts-1, 2) //nolint:mnd // halves are the largest parts
			continue
		}
		if parts >= len(items) {
			return
		}
		parts = min(parts*2, len(items)) //nolint:mnd // parts of half the size
	}
}

// withoutPart leaves out one of as many parts, the first for which test is true of the rest.
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
