package history

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/runname"
)

// This file decides which objects outside of the first namespace of a log belong to it: those whose name or namespace
// contains the name of that namespace, which no other log has. Such names are known before the objects are created, so an
// object belongs to its log from the first event on. An object with another name belongs to no log: it is shared, like a
// Node.

// WatchClusterScoped adds the cluster-scoped kinds to the watches of the recorder.
func (r *Recorder) WatchClusterScoped(ctx context.Context) error {
	r.extending.Lock()
	r.clusterScoped = true
	r.extending.Unlock()
	return r.extend(ctx)
}

// FollowCluster adds to the log the cluster-scoped objects that it claims, and the namespaces that belong to it.
func (l *Log) FollowCluster() {
	r := l.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs[""] = append(slices.Clip(r.logs[""]), l)
	r.followers = append(r.followers, l.namespace)
}

// logsOf returns the logs that get the events of a namespace. The caller holds r.mu.
func (r *Recorder) logsOf(namespace string) []*Log {
	logs := r.logs[namespace]
	for _, l := range r.logs[""] {
		if namespace != "" && namespace != l.namespace && l.Has(namespace) {
			logs = append(slices.Clip(logs), l)
		}
	}
	return logs
}

// Has reports whether the objects of a namespace belong to the log.
func (l *Log) Has(namespace string) bool { return strings.Contains(namespace, l.namespace) }

// Claim adds the past and future changes of a cluster-scoped object to the log.
func (l *Log) Claim(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClaimed(uid) {
		return
	}
	earlier := l.unclaimed[uid]
	l.unclaimed[uid] = nil
	for _, c := range earlier {
		l.append(c)
	}
}

// isClaimed reports whether the changes of a cluster-scoped object are in the log. The caller holds l.mu.
func (l *Log) isClaimed(uid types.UID) bool {
	changes, known := l.unclaimed[uid]
	return known && changes == nil
}

// namespaces returns the namespaces of the log.
func (l *Log) namespaces() []string {
	all := []string{l.namespace}
	for _, c := range l.CurrentObjects() {
		if name := c.Object.GetName(); isNamespace(c.Resource.GroupResource()) && l.Has(name) && name != l.namespace {
			all = append(all, name)
		}
	}
	return all
}

// BelongsToAnother reports whether an object belongs to another log of this process, or to a test or a run of any process.
// It may have ended: its objects are being deleted. The namespace of a cluster-scoped object is "".
func (l *Log) BelongsToAnother(namespace, name string) bool {
	place := namespace
	if place == "" {
		place = name
	}
	switch {
	case l.Has(place):
		return false
	case runname.IsOfAnother(place, l.namespace):
		return true
	}
	r := l.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.followers, func(other string) bool { return strings.Contains(place, other) })
}

func isNamespace(resource schema.GroupResource) bool {
	return resource.Group == "" && resource.Resource == "namespaces"
}
