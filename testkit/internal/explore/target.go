package explore

import (
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// target is one request of the operator, by what it has in common with the same request of another run.
type target struct {
	verb        string
	kind        intercept.Kind
	subresource string
	object      string // canonical group of the object's name; "" for a collection
	number      int    // counts requests of this kind about this group, from 1
	step        int

	effective bool // it changed something
	creates   bool // it made an object
	versioned bool // it would be refused if the object had changed meanwhile
	writes    bool
}

// id is the same in every run.
func (t target) id() string { return fmt.Sprintf("%s#%d", t.group(), t.number) }

func (t target) group() string {
	kind := t.kind.Resource
	if t.subresource != "" {
		kind += "." + t.subresource
	}
	return strings.TrimSuffix(t.verb+"-"+kind+"-"+t.object, "-")
}

// String reads like "the 2nd create of pods web".
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

// targets are the operator's requests in the order of their sending.
func (r *run) targets() []target {
	effective := r.effective()
	count := map[string]int{}
	var all []target
	for i, c := range r.operator.Calls() {
		// A fault-free run has a second process for what comes after the restart at rest, which no other run has, and for
		// the deletion, which all have.
		restarted := c.Process > 1 && c.Step <= len(r.x.Steps)
		if c.Verb == "watch" || intercept.IsLease(c.Request) || c.Resource == "" || restarted {
			continue
		}
		t := r.targetOf(&c)
		count[t.group()]++
		t.number, t.step, t.effective = count[t.group()], c.Step, effective[i]
		t.creates = t.effective && c.Code == http.StatusCreated
		all = append(all, t)
	}
	return all
}

// targetOf names what a request is about.
func (r *run) targetOf(c *intercept.Call) target {
	return target{
		verb: c.Verb, kind: intercept.KindOf(c.Request), subresource: c.Subresource, object: r.groupOf(c), writes: c.Writes(),
		versioned: isVersioned(c),
	}
}

// groupOf is the canonical group of the object's name, as far as it is known when the request is sent.
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

// withoutGenerated is a name without what differs from run to run: the namespace, and the UIDs of objects, of which the owners may be
// newer than the history.
func (r *run) withoutGenerated(name string, owners []metav1.OwnerReference) string {
	if len(name) > 8 { // as long as the shortest form of a UID
		for _, o := range owners {
			name = state.ReplaceUID(name, o.UID, "$UID")
		}
		for _, c := range r.log.Changes() {
			name = state.ReplaceUID(name, c.Object.GetUID(), "$UID")
		}
	}
	return strings.ReplaceAll(name, r.k.Namespace, "$NAMESPACE")
}

// isVersioned reports whether the request names the version of the object that it was computed from.
func isVersioned(c *intercept.Call) bool {
	return c.Writes() && c.Verb != "create" && metadataOf(c.Sent).ResourceVersion != ""
}
