package configrollout

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/limiter"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/policy"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// observer collects the input of a decision.
type observer struct {
	options Options
	// workloads reads workloads; namespaces reads the labels of namespaces and may be nil.
	workloads, namespaces client.Reader
	store                 *digest.Store
	failed                func(namespace string) []limiter.Key
	rolledOutByOthers     func(o client.Object, sources []digest.Source) bool
	// recallRecord returns the last record of a workload without one in its annotations; optional.
	recallRecord func(client.Object) (annotation.Record, bool)
}

// record returns the record of a workload, even if its annotations were removed.
func (ob *observer) record(o client.Object) annotation.Record {
	record := annotation.ReadRecord(o.GetAnnotations())
	if record.Observed != "" || ob.recallRecord == nil {
		return record
	}
	if recalled, ok := ob.recallRecord(o); ok {
		return recalled
	}
	return record
}

func (ob *observer) observe(
	ctx context.Context, o client.Object, mode digest.ReadMode, now time.Time,
) (policy.Observation, error) {
	settings, invalid := annotation.Parse(o.GetAnnotations(), ob.options.QuietPeriod)
	record := ob.record(o)
	observation := policy.Observation{
		Settings: settings, Invalid: invalid, Record: record, Template: workload.Digest(o),
		Status: workload.StatusOf(o, record.Last), Slot: true, Deadline: ob.options.RolloutDeadline,
		MaxDeadline: ob.options.MaxRolloutDeadline, Now: now,
	}
	enabled, unreadable, err := ob.enabled(ctx, o.GetNamespace(), observation)
	if unreadable != nil {
		observation.Invalid = append(observation.Invalid, *unreadable)
	}
	if observation.Enabled = enabled; err != nil || !enabled {
		return observation, err
	}
	if observation.Excess = ob.excess(o, settings); observation.Excess != "" {
		return observation, nil
	}
	observation.References = digest.References(reference.Collect(workload.Template(o), reference.Options{}))
	observation.SecretsOff = len(settings.Secrets) > 0 && !ob.options.Secrets
	sources, unread, err := ob.sources(ctx, o, settings, mode)
	if err != nil {
		return observation, err
	}
	observation.Sources = sources
	observation.Invalid = append(observation.Invalid, unread...)
	observation.Renewed = ob.rolledOutByOthers(o, observation.Sources)
	observation.Failed, err = ob.failures(ctx, keyOf(o), observation.Sources)
	return observation, err
}

// enabled returns the setting of the workload, of its namespace or of the flag, in this order. The second result is an
// invalid label of the namespace. A setting that cannot be read enables no workload, and a workload that was enabled keeps
// its record.
func (ob *observer) enabled(
	ctx context.Context, namespace string, o policy.Observation,
) (bool, *annotation.Invalid, error) {
	known := o.Record.Observed != ""
	switch {
	case o.Settings.Enabled != nil:
		return *o.Settings.Enabled, nil, nil
	case slices.ContainsFunc(o.Invalid, func(i annotation.Invalid) bool { return i.Name == annotation.Enabled }):
		return known, nil, nil
	}
	if ob.namespaces == nil {
		return ob.options.AllWorkloads, nil, nil
	}
	meta := namespaceMetadata()
	if err := ob.namespaces.Get(ctx, types.NamespacedName{Name: namespace}, meta); err != nil {
		return false, nil, client.IgnoreNotFound(err) // the namespace is gone, and so are its workloads soon
	}
	says, invalid := annotation.Default(meta.Labels)
	switch {
	case says != nil:
		return *says, nil, nil
	case invalid != nil:
		return known, invalid, nil
	}
	return ob.options.AllWorkloads, nil, nil
}

// excess describes the references of a workload with too many of them; otherwise it returns "". None of them is read then.
func (ob *observer) excess(o client.Object, s annotation.Settings) string {
	if workload.Oversized(o) {
		return "its pod template has more than 4096 volumes, mounts and variables, so that its references are not read"
	}
	return reference.Excess(reference.Collect(workload.Template(o), ob.references(s)))
}

// maxInvalidObjects is the maximal number of reported objects with an invalid annotation.
const maxInvalidObjects = 5

// sources reads every object that a workload uses. The second result lists the objects with an annotation that cannot be
// read.
func (ob *observer) sources(
	ctx context.Context, o client.Object, s annotation.Settings, mode digest.ReadMode,
) (sources []digest.Source, invalid []annotation.Invalid, err error) {
	for _, ref := range reference.Collect(workload.Template(o), ob.references(s)) {
		content, err := ob.store.Content(ctx, o.GetNamespace(), ref, mode)
		if err != nil {
			return nil, nil, err
		}
		if content.IgnoreErr != nil && len(invalid) < maxInvalidObjects {
			invalid = append(invalid, annotation.Invalid{
				Name: annotation.Ignore, Object: ref.String(), Effect: annotation.IgnoresObject, Err: content.IgnoreErr,
			})
		}
		if !content.Ignored {
			sources = append(sources, digest.NewSource(o.GetNamespace(), ref, content))
		}
	}
	return sources, invalid, nil
}

func (ob *observer) references(s annotation.Settings) reference.Options {
	return reference.Options{
		ConfigMaps: s.ConfigMaps, Secrets: s.Secrets, Ignore: s.Ignore, HotReload: s.HotReload, NoSecrets: !ob.options.Secrets,
	}
}

// The maximal number of failed workloads of a namespace that may hold another one, and of those whose sources are read.
const (
	maxFailed     = 100
	maxFailedRead = 20
)

// failures names, by source, the workloads that failed with the present content of these sources.
func (ob *observer) failures(ctx context.Context, self limiter.Key, sources []digest.Source) (map[string]string, error) {
	failures := map[string]string{}
	failed, read := ob.failed(self.Namespace), 0
	for _, key := range failed[:min(len(failed), maxFailed)] {
		if key == self || read == maxFailedRead {
			continue
		}
		other, err := ob.get(ctx, key)
		if err != nil {
			return nil, err
		}
		last := ob.record(other).Last
		shared := func(s digest.Source) bool { return last.MayHaveCaused(s.Name) }
		if last == nil || !slices.ContainsFunc(sources, shared) {
			continue
		}
		read++
		if err := ob.addFailedSources(ctx, key, other, failures); err != nil {
			return nil, err
		}
	}
	return failures, nil
}

// addFailedSources adds the sources that made the other workload roll and have not changed since.
func (ob *observer) addFailedSources(
	ctx context.Context, key limiter.Key, other client.Object, failures map[string]string,
) error {
	settings, _ := annotation.Parse(other.GetAnnotations(), ob.options.QuietPeriod)
	if ob.excess(other, settings) != "" {
		return nil
	}
	record := ob.record(other)
	theirs, _, err := ob.sources(ctx, other, settings, digest.TrustCache)
	if err != nil {
		return err
	}
	for _, s := range theirs {
		if record.Last.MayHaveCaused(s.Name) && record.Sources[s.ID] == s.Sum && failures[s.Name] == "" {
			failures[s.Name] = key.Kind + " " + key.Name
		}
	}
	return nil
}

// get reads a workload. A missing one is returned as an empty object.
func (ob *observer) get(ctx context.Context, key limiter.Key) (client.Object, error) {
	o, err := workload.New(key.Kind)
	if err != nil {
		return nil, err
	}
	err = ob.workloads.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, o)
	return o, client.IgnoreNotFound(err)
}

// entryOf returns what a workload contributes to the limiter. A terminating workload contributes nothing, even if a
// finalizer keeps it.
func (ob *observer) entryOf(o client.Object) limiter.Entry {
	if o.GetDeletionTimestamp() != nil {
		return limiter.Entry{Version: o.GetResourceVersion()}
	}
	record := ob.record(o)
	settings, _ := annotation.Parse(o.GetAnnotations(), 0)
	var started time.Time
	if record.Last != nil {
		started = record.Last.Time
	}
	return limiter.Entry{
		Version: o.GetResourceVersion(), Rolling: workload.Rolling(o, record), Started: started,
		Failed:  settings.OnFailure != annotation.Continue && workload.Failed(o, record),
		Pending: record.Pending != "", Since: record.Since, Priority: settings.Priority,
	}
}
