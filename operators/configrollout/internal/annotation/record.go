package annotation

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// None is the value of ObservedTemplate for a template without a digest.
const None = "none"

// timeLayout keeps milliseconds: quiet periods may be shorter than a second.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// Result is how a rollout ended.
type Result string

// The results. Empty means that it has not ended.
const (
	Completed  Result = "Completed"
	Failed     Result = "Failed"
	RolledBack Result = "RolledBack"
	// Superseded means that somebody else changed the template before it ended.
	Superseded Result = "Superseded"
	// Stuck means that a pod of an earlier template, which is not ready and which Kubernetes waits for, is in the way.
	Stuck Result = "Stuck"
)

// Record is what the operator remembers of a workload, on the workload's metadata. The zero value is what it knows of one
// that it has not seen before.
type Record struct {
	// Observed is the digest that the workload has been brought to.
	Observed string
	// Sources is the same by source: what [digest.Source] calls ID and Sum.
	Sources map[string]string
	// References identifies what the pod template referred to then.
	References string
	// Template is the digest that the template had then, or None; empty if it is Observed, or if there never was one.
	Template string
	// Pending is the digest that it is to be brought to, Since when that began, Changed when it last became another.
	Pending        string
	Since, Changed time.Time
	// Last is nil before the first rollout.
	Last *Rollout
	// State is what was reported last.
	State string
}

// Rollout tells of one rollout.
type Rollout struct {
	Time time.Time `json:"time"`
	// Sources are the names of what changed, such as "ConfigMap/nginx-conf".
	Sources []string `json:"sources"`
	// More is how many of them there was no room for.
	More int    `json:"more,omitempty"`
	From string `json:"fromDigest,omitempty"`
	To   string `json:"toDigest"`
	// Before is the digest that the template had; empty if none.
	Before string `json:"templateBefore,omitempty"`
	Result Result `json:"result,omitempty"`
	// Reverts counts how often somebody took this digest out of the template and it was put back.
	Reverts int `json:"reverts,omitempty"`
	// Updated is how many pods had been updated at the deadline Progressed, where Kubernetes itself has none.
	Updated    int32     `json:"updated,omitempty"`
	Progressed time.Time `json:"progressed,omitzero"`
	// ExceededBefore is when Kubernetes had given up an earlier rollout that this one replaces.
	ExceededBefore time.Time `json:"exceededBefore,omitzero"`
	// Unready means that the rollout began with a pod of an unfinished one that is not ready and that Kubernetes waits for.
	Unready bool `json:"unreadyBefore,omitempty"`
}

// Suspects reports whether that source made the workload roll, or may have.
func (l *Rollout) Suspects(source string) bool {
	return l.More > 0 || slices.Contains(l.Sources, source)
}

// longestRollout is how many bytes of JSON a Rollout may take.
const longestRollout = 1024

// all lists what a Record consists of.
var all = []string{
	ObservedDigest, ObservedSources, ObservedTemplate, PendingDigest, PendingSince, PendingChanged, LastRollout, State,
}

// ReadRecord reads what Annotations has written. What somebody spoiled counts as not there.
func ReadRecord(annotations map[string]string) Record {
	r := Record{
		Observed: annotations[ObservedDigest],
		Template: annotations[ObservedTemplate], Pending: annotations[PendingDigest],
		Since: readTime(annotations[PendingSince]), Changed: readTime(annotations[PendingChanged]),
		State: annotations[State],
	}
	r.References, r.Sources = readSources(annotations[ObservedSources])
	if last := (&Rollout{}); json.Unmarshal([]byte(annotations[LastRollout]), last) == nil && last.To != "" {
		r.Last = last
	}
	return r
}

// Annotations returns the record as annotations, with an empty value for each that is not to exist.
func (r Record) Annotations() map[string]string {
	return map[string]string{
		ObservedDigest: r.Observed, ObservedSources: r.writeSources(), ObservedTemplate: r.Template,
		PendingDigest: r.Pending, PendingSince: writeTime(r.Since), PendingChanged: writeTime(r.Changed),
		LastRollout: r.Last.write(), State: r.State,
	}
}

// NotAfter is the record without what is later than now: a clock that was wrong, or somebody's hand, must not put anything
// off until then.
func (r Record) NotAfter(now time.Time) Record {
	if r.Since.After(now) || r.Changed.After(now) {
		r.Since, r.Changed = time.Time{}, time.Time{}
	}
	if r.Last != nil && (r.Last.Time.After(now) || r.Last.Progressed.After(now)) {
		last := *r.Last
		last.Time, last.Progressed = now, time.Time{}
		r.Last = &last
	}
	return r
}

// Written reports whether any annotation of a record is there.
func Written(annotations map[string]string) bool {
	return slices.ContainsFunc(all, func(name string) bool { _, ok := annotations[name]; return ok })
}

// Changes returns what must be set, and what must go (nil), for the annotations to be the record.
func (r Record) Changes(annotations map[string]string) map[string]*string {
	changes := map[string]*string{}
	for name, want := range r.Annotations() {
		got, ok := annotations[name]
		switch {
		case want == "" && ok:
			changes[name] = nil
		case want != "" && want != got:
			changes[name] = &want
		}
	}
	return changes
}

func (l *Rollout) write() string {
	if l == nil {
		return ""
	}
	short := *l
	for {
		text, err := json.Marshal(short)
		if err != nil || len(text) <= longestRollout || len(short.Sources) == 0 {
			return string(text)
		}
		short.Sources = short.Sources[:len(short.Sources)-1]
		short.More++
	}
}

func writeTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

func readTime(v string) time.Time {
	t, err := time.Parse(timeLayout, v)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// writeSources writes the references, and then the sources with an equals sign in each.
func (r Record) writeSources() string {
	if r.References == "" {
		return ""
	}
	parts := []string{r.References}
	for _, id := range slices.Sorted(maps.Keys(r.Sources)) {
		parts = append(parts, id+"="+r.Sources[id])
	}
	return strings.Join(parts, ",")
}

func readSources(v string) (references string, sources map[string]string) {
	references, rest, _ := strings.Cut(v, ",")
	for part := range strings.SplitSeq(rest, ",") {
		if id, sum, ok := strings.Cut(part, "="); ok {
			if sources == nil {
				sources = map[string]string{}
			}
			sources[id] = sum
		}
	}
	return references, sources
}
