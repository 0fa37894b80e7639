// Package baseline holds the results of the runs without a fault: the expected states, the requests and the children of an
// operator, and all differences between the runs.
package baseline

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
	"github.com/homeostat-dev/homeostat/testkit/internal/webhookconfig"
)

// Baseline holds the results of the runs without a fault.
type Baseline struct {
	// Checkpoints are the states after each step, and after the deletion of the custom resources.
	Checkpoints []state.State
	// Mask contains the paths of differences between two baseline runs.
	Mask state.Mask
	// Counts are the creations and deletions, as far as the runs agree.
	Counts state.Counts
	// UnstableCounts are the groups with different counts in two baseline runs.
	UnstableCounts map[string]bool
	// Opened are the kinds that the operator lists or watches.
	Opened []intercept.GroupResource
	// Status are the kinds whose status the operator writes.
	Status map[intercept.GroupResource]bool
	// Calls are the requests of the operator except watches and leader election, in order.
	Calls []Target
	// Exchanges are the requests of the operator to external services, in order.
	Exchanges []Exchange
	// Paths makes the paths of requests to external services canonical.
	Paths Paths
	// UnstableExchanges are requests to external services, without their numbers, that not all baseline runs have.
	UnstableExchanges []string
	// Admitted are the kinds of requests, of any sender, that webhooks admit.
	Admitted map[webhookconfig.Admission]bool
	// Children are the operator's objects at each checkpoint.
	Children [][]Child
	// Pods are the Ready pods at each checkpoint.
	Pods [][]Pod
	// StepFields are the fields of the operator's objects that have the value of a step, at each checkpoint, by canonical name.
	StepFields []map[string][]state.Field
	// AddedFields are the fields that the operator added to objects of the scenario, at each checkpoint, by canonical name.
	AddedFields []map[string][]state.Field
	// MetadataFields are the labels and annotations that the operator set in its objects, at each checkpoint, by canonical
	// name.
	MetadataFields []map[string][]state.Field
	// UserObjects are the canonical names of objects that the scenario created or changed.
	UserObjects map[string]bool
	// Restored are the canonical names of objects without a trace of the operator: they existed before it started, the
	// scenario never changed them, and they have their initial content at the end.
	Restored map[string]bool
	// WatchEvents counts the watch events that the operator received, by kind.
	WatchEvents map[intercept.GroupResource]int
	// LaterEvents counts those of a step that the user did not cause, at most, by step as in [Target].
	LaterEvents map[intercept.GroupResource]map[int]int
	// Replacements counts the changes of texts in objects of the operator, at most, by path.
	Replacements map[string]int
}

// Child is an object that the operator created, by a name that is the same in every run.
type Child struct {
	// Name is canonical.
	Name string
	Kind intercept.GroupResource
	// ManagedParts are the parts of the object with fields that the operator set, canonical.
	ManagedParts []string
	// Content is the object in JSON, with NamespacePlaceholder instead of the namespace of its run.
	Content []byte
}

// HasOwner reports whether the child has an owner reference.
func (c Child) HasOwner() bool {
	var object metav1.PartialObjectMetadata
	return json.Unmarshal(c.Content, &object) == nil && len(object.OwnerReferences) > 0
}

// Pod is a Ready pod, or one of several pods of a workload with generated names.
type Pod struct {
	// Name is the canonical name of the pod or, if that is generated, of its workload.
	Name string
	// Containers are the names of its containers.
	Containers []string
	// Stays means that no operator and no controller creates the pod again: the scenario created it.
	Stays bool
}

// NamespacePlaceholder stands for the namespace of a run.
const NamespacePlaceholder = "$NAMESPACE"

// ManyRuns is the minimum number of runs for MergeCounts to accept a deviating one.
const ManyRuns = 5

// MergeCounts takes the counts that all runs have in common. With at least [ManyRuns] runs, one may deviate: an operator
// with a rare error has it in a baseline run, too.
func (b *Baseline) MergeCounts(all []state.Counts) {
	tally := map[string]map[state.Count]int{}
	for _, counts := range all {
		for group := range counts {
			tally[group] = map[state.Count]int{}
		}
	}
	for group, votes := range tally {
		for _, counts := range all {
			votes[counts[group]]++
		}
		for count, n := range votes {
			if n == len(all) || len(all) >= ManyRuns && n == len(all)-1 {
				b.Counts[group] = count
			}
		}
		if _, known := b.Counts[group]; !known {
			b.UnstableCounts[group] = true
		}
	}
}

// Notes lists everything that no run is compared by, because the baseline runs disagree about it. A nil baseline has none.
func (b *Baseline) Notes() []string {
	if b == nil {
		return nil
	}
	var notes []string
	tell := func(what string, all []string) {
		const most = 8
		if rest := len(all) - most; rest > 0 {
			all = append(all[:most], fmt.Sprintf("and %d more", rest))
		}
		if len(all) > 0 {
			notes = append(notes, fmt.Sprintf("%s differs between runs without a fault, and is not compared: %s",
				what, strings.Join(all, ", ")))
		}
	}
	tell("what is there", slices.Sorted(maps.Keys(b.Mask)))
	tell("how often this is made and deleted", slices.Sorted(maps.Keys(b.UnstableCounts)))
	if len(b.UnstableExchanges) > 0 {
		notes = append(notes, "not all runs without a fault send these requests to external services, so that no fault is "+
			"injected at them: "+strings.Join(b.UnstableExchanges, ", "))
	}
	return notes
}

// HasGeneratedData reports whether the operator generates values of a Secret: they differ between two baseline runs.
func (b *Baseline) HasGeneratedData(c Child) bool {
	if c.Kind.String() != "secrets" {
		return false
	}
	for path := range b.Mask {
		if strings.HasPrefix(path, c.Name+".data.") {
			return true
		}
	}
	return false
}

// EffectiveWrites returns the number of writes that changed an object of the kind during a step, which is numbered as in
// [Target].
func (b *Baseline) EffectiveWrites(kind intercept.GroupResource, step int) int {
	n := 0
	for _, t := range b.Calls {
		if t.Effective && t.Writes && t.Kind == kind && t.Step == step {
			n++
		}
	}
	return n
}

// Effects returns the number of requests that changed something. A nil baseline has none.
func (b *Baseline) Effects() int {
	if b == nil {
		return 0
	}
	n := 0
	for _, t := range b.Calls {
		if t.Effective {
			n++
		}
	}
	return n
}
