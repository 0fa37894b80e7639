package explore

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// targets returns the operator's requests in the order of sending.
func (r *run) targets() []baseline.Target {
	effective := r.effective()
	count := map[string]int{}
	var all []baseline.Target
	for i, c := range r.operator.Calls() {
		// A baseline run has a second process after the final restart. Its requests have no counterpart in other runs, except
		// for those of the deletion.
		restarted := c.Process > 1 && c.Step <= len(r.x.Steps)
		if c.Verb == "watch" || intercept.IsLease(c.Request) || c.Resource == "" || restarted {
			continue
		}
		t := r.targetOf(&c)
		count[t.Group()]++
		t.Number = count[t.Group()]
		t.Step = c.Step
		t.Effective = effective[i]
		t.Creates = t.Effective && c.Code == http.StatusCreated
		all = append(all, t)
	}
	return all
}

// targetOf returns the target of a request, without its number.
func (r *run) targetOf(c *intercept.Call) baseline.Target {
	return baseline.Target{
		Verb: c.Verb, Kind: intercept.KindOf(c.Request), Subresource: c.Subresource, Object: r.groupOf(c), Writes: c.Writes(),
		Versioned: isVersioned(c),
	}
}

// groupOf returns the canonical group of the object's name, as far as it is known when the request is sent.
func (r *run) groupOf(c *intercept.Call) string {
	m := metadataOf(c.Sent)
	name := c.Name
	r.mu.Lock()
	if m.GenerateName != "" && m.Name == "" {
		if name != "" {
			r.generatedNames[name] = m.GenerateName + "~"
		}
		name = m.GenerateName + "~"
	} else if made, ok := r.generatedNames[name]; ok {
		name = made
	}
	r.mu.Unlock()
	if prefix, ok := r.x.generated.Prefix(intercept.KindOf(c.Request).String(), name); ok {
		name = prefix + "~"
	}
	return r.withoutGenerated(name, m.OwnerReferences)
}

// withoutGenerated returns a name without the namespace and the UIDs of objects, which differ between runs. An owner may
// be newer than the history.
func (r *run) withoutGenerated(name string, owners []metav1.OwnerReference) string {
	if len(name) > 8 { // length of the shortest form of a UID
		for _, o := range owners {
			name = state.ReplaceUID(name, o.UID, "$UID")
		}
		for _, c := range r.log.Changes() {
			name = state.ReplaceUID(name, c.Object.GetUID(), "$UID")
		}
	}
	return strings.ReplaceAll(name, r.space.Namespace, "$NAMESPACE")
}

// isVersioned reports whether the request contains a resourceVersion (optimistic concurrency).
func isVersioned(c *intercept.Call) bool {
	return c.Writes() && c.Verb != "create" && metadataOf(c.Sent).ResourceVersion != ""
}
