package explore

import (
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// target identifies one request of the operator across runs.
type target struct {
	verb        string
	kind        intercept.Kind
	subresource string
	object      string // canonical group of the object's name; "" for a collection
	number      int    // number of the request in its group, from 1
	step        int

	effective bool // the request changed something
	creates   bool // the request created an object
	versioned bool // the request fails if the object has changed meanwhile
	writes    bool
}

// id returns an identifier that is the same in every run.
func (t target) id() string { return fmt.Sprintf("%s#%d", t.group(), t.number) }

func (t target) group() string {
	kind := t.kind.Resource
	if t.subresource != "" {
		kind += "." + t.subresource
	}
	return strings.TrimSuffix(t.verb+"-"+kind+"-"+t.object, "-")
}

// String returns a text like "the 2nd create of pods web".
func (t target) String() string {
	kind := t.kind.String()
	if t.subresource != "" {
		kind += "/" + t.subresource
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s of %s %s", ordinal(t.number), t.verb, kind, t.object))
}

func ordinal(n int) string {
	suffix := "th"
	switch {
	case n%100/10 == 1:
	case n%10 == 1:
		suffix = "st"
	case n%10 == 2:
		suffix = "nd"
	case n%10 == 3:
		suffix = "rd"
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

// targets returns the operator's requests in the order of sending.
func (r *run) targets() []target {
	effective := r.effective()
	count := map[string]int{}
	var all []target
	for i, c := range r.operator.Calls() {
		// A baseline run has a second process after the final restart. Its requests have no counterpart in other runs, except
		// for those of the deletion.
		restarted := c.Process > 1 && c.Step <= len(r.x.Steps)
		if c.Verb == "watch" || intercept.IsLease(c.Request) || c.Resource == "" || restarted {
			continue
		}
		t := r.targetOf(&c)
		count[t.group()]++
		t.number = count[t.group()]
		t.step = c.Step
		t.effective = effective[i]
		t.creates = t.effective && c.Code == http.StatusCreated
		all = append(all, t)
	}
	return all
}

// targetOf returns the target of a request, without its number.
func (r *run) targetOf(c *intercept.Call) target {
	return target{
		verb: c.Verb, kind: intercept.KindOf(c.Request), subresource: c.Subresource, object: r.groupOf(c), writes: c.Writes(),
		versioned: isVersioned(c),
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
