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

// timeLayout has milliseconds, because quiet periods may be shorter than a second.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// Result is the result of a rollout.
type Result string

// The results. An unfinished rollout has none.
const (
	Completed  Result = "Completed"
	Failed     Result = "Failed"
	RolledBack Result = "RolledBack"
	// Superseded means that another manager changed the template during the rollout.
	Superseded Result = "Superseded"
	// Stuck means that Kubernetes waits for an unready pod of an earlier template.
	Stuck Result = "Stuck"
)

// Record is the operator's state of a workload, stored in annotations. The zero value is the state of a new workload.
type Record struct {
	// Observed is the digest of the configuration that the workload was last brought to.
	Observed string
	// Sources are its sources: Sum by ID of [digest.Source].
	Sources map[string]string
	// References identifies the references of the pod template at that time.
	References string
	// Template is the digest in the template at that time, or None. It is empty if it equals Observed or if there never
	// was one.
	Template string
	// Pending is the digest of the pending rollout, Since the time of the first pending change, Changed the time of the
	// last one.
	Pending        string
	Since, Changed time.Time
	// Last is the last rollout, or nil.
	Last *Rollout
	// State is the last reported state.
	State string
}

// Rollout describes one rollout.
type Rollout struct {
	Time time.Time `json:"time"`
	// Sources are the names of the changed objects, such as "ConfigMap/nginx-conf".
	Sources []string `json:"sources"`
	// More is the number of sources left out for their size.
	More int    `json:"more,omitempty"`
	From string `json:"fromDigest,omitempty"`
	To   string `json:"toDigest"`
	// Before is the previous digest in the template; empty if none.
	Before string `json:"templateBefore,omitempty"`
	Result Result `json:"result,omitempty"`
	// Reverts counts how often another manager removed this digest from the template and it was restored.
	Reverts int `json:"reverts,omitempty"`
	// Updated is the number of updated pods at the time Progressed, for kinds without a deadline in Kubernetes.
	Updated    int32     `json:"updated,omitempty"`
	Progressed time.Time `json:"progressed,omitzero"`
	// ExceededBefore is the time when an earlier rollout exceeded its deadline.
	ExceededBefore time.Time `json:"exceededBefore,omitzero"`
	// Unready means that the rollout started with an unready pod of an unfinished one, and that Kubernetes waits for that
	// pod.
	Unready bool `json:"unreadyBefore,omitempty"`
}

// MayHaveCaused reports whether that source caused the rollout, or may have.
func (l *Rollout) MayHaveCaused(source string) bool {
	return l.More > 0 || slices.Contains(l.Sources, source)
}

// maxRolloutBytes is the maximal size of a Rollout in JSON.
const maxRolloutBytes = 1024

// recordNames lists the annotations of a Record.
var recordNames = []string{
	ObservedDigest, ObservedSources, ObservedTemplate, PendingDigest, PendingSince, PendingChanged, LastRollout, State,
}

// maxDigest is the maximal length of a digest in bytes.
const maxDigest = 128

// ReadRecord parses the annotations of a record. Invalid values are ignored, as are values that are longer than those of the
// operator: users may write these annotations.
func ReadRecord(annotations map[string]string) Record {
	short := func(name string, limit int) string {
		if value := annotations[name]; len(value) <= limit {
			return value
		}
		return ""
	}
	references, sources := parseSources(short(ObservedSources, MaxValue))
	return Record{
		Observed: short(ObservedDigest, maxDigest), Template: short(ObservedTemplate, maxDigest),
		Pending: short(PendingDigest, maxDigest),
		Since:   parseTime(annotations[PendingSince]), Changed: parseTime(annotations[PendingChanged]),
		State: short(State, MaxValue), References: references, Sources: sources,
		Last: parseRollout(short(LastRollout, maxRolloutBytes)),
	}
}

// maxReverts is the maximal count of reverts.
const maxReverts = 1000

func parseRollout(v string) *Rollout {
	last := &Rollout{}
	if json.Unmarshal([]byte(v), last) != nil || last.To == "" {
		return nil
	}
	last.More = max(last.More, 0)
	last.Updated = max(last.Updated, 0)
	last.Reverts = min(max(last.Reverts, 0), maxReverts)
	return last
}

// Annotations returns the record as annotations. An empty value means that the annotation must not exist.
func (r Record) Annotations() map[string]string {
	return map[string]string{
		ObservedDigest: r.Observed, ObservedSources: r.formatSources(), ObservedTemplate: r.Template,
		PendingDigest: r.Pending, PendingSince: formatTime(r.Since), PendingChanged: formatTime(r.Changed),
		LastRollout: r.Last.encode(), State: r.State,
	}
}

// ClampTimes returns the record without times later than now. Such times come from a wrong clock or a manual edit, and
// must not delay a rollout.
func (r Record) ClampTimes(now time.Time) Record {
	if r.Since.After(now) || r.Changed.After(now) {
		r.Since = time.Time{}
		r.Changed = time.Time{}
	}
	if r.Last != nil && (r.Last.Time.After(now) || r.Last.Progressed.After(now)) {
		last := *r.Last
		last.Time = now
		last.Progressed = time.Time{}
		r.Last = &last
	}
	return r
}

// Written reports whether any annotation of a record exists.
func Written(annotations map[string]string) bool {
	return slices.ContainsFunc(recordNames, func(name string) bool { _, ok := annotations[name]; return ok })
}

// Changes returns the annotations to set and to remove (nil) for the record.
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

func (l *Rollout) encode() string {
	if l == nil {
		return ""
	}
	short := *l
	for {
		text, err := json.Marshal(short)
		if err != nil || len(text) <= maxRolloutBytes || len(short.Sources) == 0 {
			return string(text)
		}
		short.Sources = short.Sources[:len(short.Sources)-1]
		short.More++
	}
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

func parseTime(v string) time.Time {
	t, err := time.Parse(timeLayout, v)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// formatSources formats the references, followed by id=sum for each source.
func (r Record) formatSources() string {
	if r.References == "" {
		return ""
	}
	parts := []string{r.References}
	for _, id := range slices.Sorted(maps.Keys(r.Sources)) {
		parts = append(parts, id+"="+r.Sources[id])
	}
	return strings.Join(parts, ",")
}

func parseSources(v string) (references string, sources map[string]string) {
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
