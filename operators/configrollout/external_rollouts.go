package configrollout

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/limiter"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// externalRollouts tracks changes of pod templates by other managers. Pods created after such a change have the present
// configuration and need no rollout. The cluster does not keep this fact, so a restart of the operator costs at most one
// rollout. It is safe for concurrent use.
type externalRollouts struct {
	mu    sync.Mutex
	known map[limiter.Key]*externalRollout
}

// externalRollout is the state of one workload.
type externalRollout struct {
	uid        types.UID
	generation int64
	// convergedTemplate is the template of all pods, empty if it is not known.
	convergedTemplate string
	// template is a template without pods in that version of the workload; empty if there is none.
	template, version string
}

// observe records one version of a workload; versions come in order.
func (e *externalRollouts) observe(key limiter.Key, o client.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.known[key]
	if known == nil || known.uid != o.GetUID() {
		known = &externalRollout{uid: o.GetUID()}
		e.known[key] = known
	}
	status := workload.StatusOf(o, nil)
	if known.generation == o.GetGeneration() && (!status.Complete || known.convergedTemplate != "") {
		return
	}
	known.generation = o.GetGeneration()
	switch template := workload.TemplateSum(o); {
	case status.Complete:
		known.convergedTemplate = template
	case known.convergedTemplate == "" || known.convergedTemplate == template:
	case status.Observed || status.Manual: // there may be pods already, or only after a manual deletion
		known.convergedTemplate = ""
	default:
		known.convergedTemplate = ""
		known.template = template
		known.version = o.GetResourceVersion()
	}
}

func (e *externalRollouts) forget(key limiter.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.known, key)
}

// podsYoungerThan reports whether the pods of the workload are younger than the sources. resourceVersions of different
// kinds are comparable if one etcd stores them, as usual for all kinds except events.
func (e *externalRollouts) podsYoungerThan(key limiter.Key, o client.Object, sources []digest.Source) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.known[key]
	if known == nil || known.template == "" || known.uid != o.GetUID() || known.template != workload.TemplateSum(o) {
		return false
	}
	sums := annotation.ReadRecord(o.GetAnnotations()).Sources
	for _, s := range sources {
		if was := sums[s.ID]; s.Version == "" && (was == "" || was == s.Sum) {
			continue // it never existed
		}
		order, err := resourceversion.CompareResourceVersion(s.Version, known.version)
		if err != nil || order >= 0 {
			return false
		}
	}
	return true
}
