package history

import (
	"maps"
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

// FollowCluster adds to the log the namespaces that belong to it.
func (l *Log) FollowCluster() {
	r := l.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	l.further = true
	r.followers = append(r.followers, l.namespace)
}

// logsOf returns the logs that get the events of a namespace. The caller holds r.mu.
func (r *Recorder) logsOf(namespace string) []*Log {
	logs := r.logs[namespace]
	for _, l := range r.logs[""] {
		if namespace != "" && namespace != l.namespace && l.further && l.Has(namespace) {
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

// ClusterScoped returns the changes of the cluster-scoped objects of a kind and name since the begin of the log, claimed or
// not, in the order in which the API server made them. The recorder has to watch the cluster-scoped kinds.
func (l *Log) ClusterScoped(kind schema.GroupKind, name string) []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Change
	for _, changes := range slices.Concat(slices.Collect(maps.Values(l.unclaimed)), [][]Change{l.changes}) {
		for _, c := range changes {
			if u := c.Object; u.GetNamespace() == "" && u.GetName() == name && u.GroupVersionKind().GroupKind() == kind {
				all = append(all, c)
			}
		}
	}
	return InOrder(all)
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
