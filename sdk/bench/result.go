package main

import (
	"cmp"
	"maps"
	"slices"
)

// result holds the measured values of one candidate for one number of objects. Values after the first reconcile of an object
// are nil for candidates that process each object once.
type result struct {
	Candidate string `json:"contender"`
	N         int    `json:"n"`

	// Requests of the candidate from the first object to the last write, in total and by verb and resource.
	RequestsPerObject float64            `json:"requestsPerObject"`
	RequestsByVerb    map[string]float64 `json:"requestsByVerb"`

	// WallSeconds is the time from the first creation to the last status.
	WallSeconds         float64 `json:"wallSeconds"`
	OperatorCPUSeconds  float64 `json:"operatorCPUSeconds"`
	APIServerCPUSeconds float64 `json:"apiserverCPUSeconds"`
	// RSSBytes is the candidate's resident memory when idle.
	RSSBytes float64 `json:"rssBytes"`

	// Requests within the window without changes, during status changes of children, and after a restart without those that
	// fill the cache.
	SteadyRequests  *float64 `json:"steadyRequests"`
	ChurnRequests   *float64 `json:"churnRequests"`
	RestartRequests *float64 `json:"restartRequests"`

	// DriftP50Millis and DriftP99Millis are the times from the deletion of a child to its recreation.
	DriftP50Millis *float64 `json:"driftP50Millis"`
	DriftP99Millis *float64 `json:"driftP99Millis"`
}

// measuredValues returns the measured values of a result, in the same order for all results.
func (r *result) measuredValues() []*float64 {
	return []*float64{
		&r.RequestsPerObject, &r.WallSeconds, &r.OperatorCPUSeconds, &r.APIServerCPUSeconds, &r.RSSBytes,
		r.SteadyRequests, r.ChurnRequests, r.RestartRequests, r.DriftP50Millis, r.DriftP99Millis,
	}
}

// medians combines the results of several rounds: each figure is the median of its values. For an even number of rounds it
// is the lower of the two middle values.
func medians(rounds []result) []result {
	type key struct {
		candidate string
		n         int
	}
	groups := map[key][]result{}
	var order []key
	for _, r := range rounds {
		k := key{r.Candidate, r.N}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r)
	}
	slices.SortStableFunc(order, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(rank(a.candidate), rank(b.candidate)))
	})
	all := make([]result, 0, len(order))
	for _, k := range order {
		all = append(all, median(groups[k]))
	}
	return all
}

func median(group []result) result {
	middle := group[0]
	middle.RequestsByVerb = maps.Clone(middle.RequestsByVerb)
	for verb := range middle.RequestsByVerb {
		values := make([]float64, len(group))
		for i, r := range group {
			values[i] = r.RequestsByVerb[verb]
		}
		middle.RequestsByVerb[verb] = quantile(values, 0.5)
	}
	columns := make([][]float64, len(middle.measuredValues()))
	for _, r := range group {
		for i, f := range r.measuredValues() {
			if f != nil {
				columns[i] = append(columns[i], *f)
			}
		}
	}
	for _, f := range []**float64{
		&middle.SteadyRequests, &middle.ChurnRequests, &middle.RestartRequests, &middle.DriftP50Millis, &middle.DriftP99Millis,
	} {
		if *f != nil {
			*f = new(**f) // not shared with the result of the round
		}
	}
	for i, f := range middle.measuredValues() {
		if f != nil {
			*f = quantile(columns[i], 0.5)
		}
	}
	return middle
}

// quantile returns the smallest value that is at least as large as the given share of all values.
func quantile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	i := int(share*float64(len(sorted)) - 1e-9)
	return sorted[min(max(i, 0), len(sorted)-1)]
}
