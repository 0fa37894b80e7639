package baseline

import (
	"slices"
	"strings"
)

// generatedSegment stands for a segment of a path that an external service has generated.
const generatedSegment = "$ID"

// Paths knows which paths of external services differ between runs, because the service generates a segment, such as an
// identifier. The zero value knows none.
type Paths struct {
	fixed    map[string]bool // paths that all runs have
	patterns [][]string      // with generatedSegment; all runs have a path of each
}

// LearnPaths compares the paths of the requests of several runs. A segment is generated if it occurs in one run only.
func LearnPaths(runs ...[]string) Paths {
	paths, segments := map[string]int{}, map[string]int{} // the number of runs that have it
	for _, run := range runs {
		own := map[string]bool{}
		for _, path := range distinct(run) {
			paths[path]++
			for segment := range strings.SplitSeq(path, "/") {
				own[segment] = true
			}
		}
		for segment := range own {
			segments[segment]++
		}
	}
	p := Paths{fixed: map[string]bool{}}
	patterns := map[string]int{}
	for _, run := range runs {
		var own []string
		for _, path := range run {
			if paths[path] == len(runs) {
				p.fixed[path] = true
				continue
			}
			parts := strings.Split(path, "/")
			for i, segment := range parts {
				if segments[segment] == 1 {
					parts[i] = generatedSegment
				}
			}
			own = append(own, strings.Join(parts, "/"))
		}
		for _, pattern := range distinct(own) {
			patterns[pattern]++
		}
	}
	for pattern, n := range patterns {
		if n == len(runs) {
			p.patterns = append(p.patterns, strings.Split(pattern, "/"))
		}
	}
	slices.SortFunc(p.patterns, slices.Compare) // the same in every process
	return p
}

func distinct(all []string) []string { return slices.Compact(slices.Sorted(slices.Values(all))) }

// Canonical returns the path with $ID in place of each generated segment.
func (p Paths) Canonical(path string) string {
	if p.fixed[path] {
		return path
	}
	parts := strings.Split(path, "/")
	for _, pattern := range p.patterns {
		if slices.EqualFunc(pattern, parts, func(expected, part string) bool {
			return part == expected || expected == generatedSegment && part != ""
		}) {
			return strings.Join(pattern, "/")
		}
	}
	return path
}
