package configrollout

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/decision"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/wave"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// observer finds out what a decision depends on.
type observer struct {
	options Options
	// workloads reads workloads and, unless it is nil, namespaces their labels.
	workloads, namespaces client.Reader
	store                 *digest.Store
	failed                func(namespace string) []wave.Key
	renewed               func(o client.Object, sources []digest.Source) bool
	// recall returns what was remembered of a workload that says nothing itself; nil if nothing is recalled.
	recall func(client.Object) (annotation.Record, bool)
}

// record is what is remembered of a workload, even if somebody has taken it out of the annotations.
func (ob *observer) record(o client.Object) annotation.Record {
	record := annotation.ReadRecord(o.GetAnnotations())
	if record.Observed != "" || ob.recall == nil {
		return record
	}
	if recalled, ok := ob.recall(o); ok {
		return recalled
	}
	return record
}

// ignored reports whether a ConfigMap or Secret asks for its changes to mean nothing.
func ignored(o metav1.Object) bool { return o.GetAnnotations()[annotation.Ignore] == "true" }

func (ob *observer) observe(
	ctx context.Context, o client.Object, trust digest.Trust, now time.Time,
) (decision.Observation, error) {
	settings, invalid := annotation.Parse(o.GetAnnotations(), ob.options.QuietPeriod)
	record := ob.record(o)
	seen := decision.Observation{
		Settings: settings, Invalid: invalid, Record: record, Template: workload.Digest(o),
		Status: workload.StatusOf(o, record.Last), Slot: true, Deadline: ob.options.RolloutDeadline, Now: now,
	}
	enabled, unreadable, err := ob.enabled(ctx, o.GetNamespace(), settings)
	if unreadable != nil {
		seen.Invalid = append(seen.Invalid, *unreadable)
	}
	if seen.Enabled = enabled; err != nil || !enabled {
		return seen, err
	}
	seen.References = digest.References(reference.Collect(workload.Template(o), reference.Options{}))
	if seen.Sources, err = ob.sources(ctx, o, settings, trust); err != nil {
		return seen, err
	}
	seen.Renewed = ob.renewed(o, seen.Sources)
	seen.Failed, err = ob.failures(ctx, keyOf(o), seen.Sources)
	return seen, err
}

// enabled asks the workload, then its namespace, then the flag. What the namespace says may not be readable.
func (ob *observer) enabled(
	ctx context.Context, namespace string, s annotation.Settings,
) (bool, *annotation.Invalid, error) {
	if s.Enabled != nil {
		return *s.Enabled, nil, nil
	}
	if ob.namespaces == nil {
		return ob.options.AllWorkloads, nil, nil
	}
	meta := namespaceMetadata()
	if err := ob.namespaces.Get(ctx, types.NamespacedName{Name: namespace}, meta); err != nil {
		return false, nil, client.IgnoreNotFound(err) // without it, its workloads are about to go
	}
	says, invalid := annotation.Default(meta.Labels)
	if says != nil {
		return *says, nil, nil
	}
	return ob.options.AllWorkloads, invalid, nil
}

// sources looks at everything that a workload uses.
func (ob *observer) sources(
	ctx context.Context, o client.Object, s annotation.Settings, trust digest.Trust,
) ([]digest.Source, error) {
	var sources []digest.Source
	for _, ref := range reference.Collect(workload.Template(o), ob.references(s)) {
		content, err := ob.store.Content(ctx, o.GetNamespace(), ref, trust)
		if err != nil {
			return nil, err
		}
		if !content.Ignored {
			sources = append(sources, digest.NewSource(o.GetNamespace(), ref, content))
		}
	}
	return sources, nil
}

func (ob *observer) references(s annotation.Settings) reference.Options {
	return reference.Options{
		ConfigMaps: s.ConfigMaps, Secrets: s.Secrets, Ignore: s.Ignore, HotReload: s.HotReload, NoSecrets: !ob.options.Secrets,
	}
}

// failures names, by source, the workloads that failed with the content that these sources have.
func (ob *observer) failures(ctx context.Context, self wave.Key, sources []digest.Source) (map[string]string, error) {
	failures := map[string]string{}
	for _, key := range ob.failed(self.Namespace) {
		if key == self {
			continue
		}
		other, err := ob.get(ctx, key)
		if err != nil {
			return nil, err
		}
		last := ob.record(other).Last
		shared := func(s digest.Source) bool { return last.Suspects(s.Name) }
		if last == nil || !slices.ContainsFunc(sources, shared) {
			continue
		}
		if err := ob.failedWith(ctx, key, other, failures); err != nil {
			return nil, err
		}
	}
	return failures, nil
}

// failedWith adds the sources that made the other workload roll and are as they were then.
func (ob *observer) failedWith(ctx context.Context, key wave.Key, other client.Object, failures map[string]string) error {
	settings, _ := annotation.Parse(other.GetAnnotations(), ob.options.QuietPeriod)
	record := ob.record(other)
	theirs, err := ob.sources(ctx, other, settings, digest.All)
	if err != nil {
		return err
	}
	for _, s := range theirs {
		if record.Last.Suspects(s.Name) && record.Sources[s.ID] == s.Sum && failures[s.Name] == "" {
			failures[s.Name] = key.Kind + " " + key.Name
		}
	}
	return nil
}

// get reads a workload; one that does not exist is an empty one.
func (ob *observer) get(ctx context.Context, key wave.Key) (client.Object, error) {
	o, err := workload.New(key.Kind)
	if err != nil {
		return nil, err
	}
	err = ob.workloads.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, o)
	return o, client.IgnoreNotFound(err)
}

// entryOf is what a workload says to others. One that is on its way out says nothing, however long somebody's finalizer
// keeps it.
func (ob *observer) entryOf(o client.Object) wave.Entry {
	if o.GetDeletionTimestamp() != nil {
		return wave.Entry{Version: o.GetResourceVersion()}
	}
	record := ob.record(o)
	settings, _ := annotation.Parse(o.GetAnnotations(), 0)
	return wave.Entry{
		Version: o.GetResourceVersion(), Rolling: workload.Rolling(o, record),
		Failed:  settings.OnFailure != annotation.Continue && workload.Failed(o, record),
		Pending: record.Pending != "", Since: record.Since, Priority: settings.Priority,
	}
}
