package configrollout

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/wave"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// renewals remembers changes of templates by others: pods that such a change makes need no rollout for what is older than
// it, which cannot be read from the cluster afterwards. To forget it costs a rollout, and nothing else.
// It is safe for concurrent use.
type renewals struct {
	mu    sync.Mutex
	known map[wave.Key]*renewal
}

// renewal is what is known of one workload.
type renewal struct {
	uid        types.UID
	generation int64
	// settled is the template that all pods are of, empty if that is not known.
	settled string
	// template is one for which there was no pod yet in that version of the workload; empty if there is none.
	template, version string
}

// observe takes note of one version of a workload after the other.
func (r *renewals) observe(key wave.Key, o client.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.known[key]
	if known == nil || known.uid != o.GetUID() {
		known = &renewal{uid: o.GetUID()}
		r.known[key] = known
	}
	status := workload.StatusOf(o, nil)
	if known.generation == o.GetGeneration() && (!status.Complete || known.settled != "") {
		return
	}
	known.generation = o.GetGeneration()
	switch template := plain(o); {
	case status.Complete:
		known.settled = template
	case known.settled == "" || known.settled == template:
	case status.Seen || status.Manual: // there may be pods already, or none without somebody's help
		known.settled = ""
	default:
		known.settled, known.template, known.version = "", template, o.GetResourceVersion()
	}
}

func (r *renewals) forget(key wave.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, key)
}

// after reports whether the pods of the workload are younger than the sources. Versions of different kinds are comparable
// as long as one etcd has them all; events apart, that is how clusters are built.
func (r *renewals) after(key wave.Key, o client.Object, sources []digest.Source) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.known[key]
	if known == nil || known.template == "" || known.uid != o.GetUID() || known.template != plain(o) {
		return false
	}
	sums := annotation.ReadRecord(o.GetAnnotations()).Sources
	for _, s := range sources {
		if was := sums[s.ID]; s.Version == "" && (was == "" || was == s.Sum) {
			continue // it is not there, and never was
		}
		order, err := resourceversion.CompareResourceVersion(s.Version, known.version)
		if err != nil || order >= 0 {
			return false
		}
	}
	return true
}

// plain identifies the template without our digest.
func plain(o client.Object) string {
	template := workload.Template(o).DeepCopy()
	delete(template.Annotations, annotation.Digest)
	text, err := json.Marshal(template)
	if err != nil { // it came as JSON
		panic(err)
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}
