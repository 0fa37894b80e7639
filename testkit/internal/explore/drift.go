package explore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
)

// driftDelete deletes a child.
func driftDelete(c child, step int) *plan {
	return &plan{
		name: "drift-deleted/" + c.name, fault: "drift-deleted", extraQuiet: true, skipCounts: true,
		summary: fmt.Sprintf("%s was deleted by hand", c.name),
		afterIdle: func(r *run, at int) {
			if at == step {
				r.deleteChild(c)
				r.awaitConvergence(step)
			}
		},
	}
}

// driftUnseen deletes a child while the operator's watch is interrupted.
func driftUnseen(c child, step int) *plan {
	return &plan{
		name: "drift-unseen/" + c.name, fault: "drift-unseen", extraQuiet: true, skipCounts: true,
		summary: fmt.Sprintf("%s was deleted by hand while the operator's watch of %s was interrupted", c.name, c.kind),
		afterIdle: func(r *run, at int) {
			if at != step {
				return
			}
			r.operator.Hold(c.kind, 0)
			r.deleteChild(c)
			r.waitQuiet()
			r.operator.Expire(c.kind)
			r.awaitConvergence(step)
		},
	}
}

// driftEdit changes the first field of a child that the operator had set, or the first such field of one part of the
// object.
func driftEdit(c child, part string, step int) *plan {
	name := "drift-edited/" + c.name
	if part != "" {
		name += "/" + part
	}
	return &plan{
		name: name, fault: "drift-edited", extraQuiet: true, skipCounts: true,
		summary: fmt.Sprintf("a field of %s that the operator had set was changed by hand", c.name),
		afterIdle: func(r *run, at int) {
			if at != step {
				return
			}
			if r.editChild(c, part) {
				r.awaitConvergence(step)
			}
		},
	}
}

// isExternallyManaged reports whether the operator does not manage an object, or a field of one, after its creation.
func (x *Explorer) isExternallyManaged(place string) bool {
	return slices.ContainsFunc(x.Leaves, func(left string) bool {
		rest, ok := strings.CutPrefix(place, left)
		return ok && (rest == "" || rest[0] == '.')
	})
}

func (r *run) child(c child) (history.Change, bool) {
	names := r.names(r.log.Changes())
	return r.find(func(h history.Change) bool { return names.Of(h.Object.GetUID()) == c.name })
}

func (r *run) deleteChild(c child) {
	live, ok := r.child(c)
	if !ok {
		return
	}
	if c.kind.String() == "persistentvolumeclaims" && r.isMounted(live.Object.GetName()) {
		r.plan.untriedReason = "a claim that is deleted stays for as long as a pod uses it"
		return
	}
	background := client.PropagationPolicy(metav1.DeletePropagationBackground) // as kubectl does
	if err := r.space.Client.Delete(r.space.Context(), live.Object.DeepCopy(), background); err != nil {
		return // the object was deleted before
	}
	r.logFault(fmt.Sprintf("somebody deletes %s", r.name(live)))
	r.operator.Touch()
	r.await(func() bool {
		again, ok := r.child(c)
		return !ok || again.Object.GetDeletionTimestamp() != nil || again.Object.GetUID() != live.Object.GetUID()
	})
}

// isMounted reports whether a pod uses the claim with this name. It reads from the API server, because the history may
// lag behind.
func (r *run) isMounted(claim string) bool {
	var pods corev1.PodList
	if err := r.space.Client.List(r.space.Context(), &pods, client.InNamespace(r.space.Namespace)); err != nil {
		return false
	}
	return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
		})
	})
}

// await waits until the history satisfies done. The limit is the timeout of the run.
func (r *run) await(done func() bool) {
	for {
		changed := r.log.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-r.space.Context().Done():
			return
		}
	}
}

// editChild changes the first field of a child, or of a part of it, that the operator set and the API server allows to
// change.
func (r *run) editChild(c child, part string) bool {
	live, ok := r.child(c)
	if !ok {
		return false
	}
	for _, f := range r.ownedFields(live.Object) {
		if part != "" && f.part() != part || r.x.isExternallyManaged(c.name+"."+f.String()) {
			continue
		}
		patch := fmt.Sprintf(`[{"op":"replace","path":%q,"value":%s}]`, f.pointer(), f.other)
		if r.patch(live.Object, types.JSONPatchType, patch, client.DryRunAll) != nil {
			continue
		}
		if r.patch(live.Object, types.JSONPatchType, patch) != nil {
			continue
		}
		r.logFault(fmt.Sprintf("somebody changes %s of %s to %s", f, r.name(live), f.other))
		r.operator.Touch()
		r.await(func() bool {
			again, ok := r.child(c)
			return !ok || again.Object.GetResourceVersion() != live.Object.GetResourceVersion()
		})
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plan.untriedReason = "the API server lets nobody change a field that the operator set"
	return false
}

// field is a field of an object and another value for it.
type field struct {
	path  []string
	other string // JSON
}

func (f field) String() string { return strings.Join(f.path, ".") }

// part returns the start of the path: a field of the object, or one of its spec or data.
func (f field) part() string { return strings.Join(f.path[:min(len(f.path), 2)], ".") }

// parts returns the parts that contain fields, in the order of the fields.
func parts(fields []field) []string {
	var all []string
	for _, f := range fields {
		if !slices.Contains(all, f.part()) {
			all = append(all, f.part())
		}
	}
	return all
}

func (f field) pointer() string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, p := range f.path {
		b.WriteString("/" + escape.Replace(p))
	}
	return b.String()
}

// ownedFields returns the fields outside of metadata that have the value that the operator sent.
func (r *run) ownedFields(live *unstructured.Unstructured) []field {
	var fields []field
	seen := map[string]bool{}
	for _, c := range r.operator.Calls() {
		if types.UID(c.UID) != live.GetUID() || c.Subresource != "" || !c.Writes() || c.Code >= http.StatusMultipleChoices {
			continue
		}
		var sent map[string]any
		if json.Unmarshal(c.Sent, &sent) != nil {
			continue // the patch is no object
		}
		is := func([]string) bool { return false }
		if c.Verb == "update" {
			is = r.unchangedFields(sent, live)
		}
		for name, v := range sent {
			switch name {
			case "apiVersion", "kind", "metadata", "status":
				continue
			}
			for _, f := range collectLeaves(nil, []string{name}, v, live.Object[name]) {
				if !seen[f.String()] && !is(f.path) {
					seen[f.String()] = true
					fields = append(fields, f)
				}
			}
		}
	}
	// Fields near the root come first. Deep ones may have several writers, such as those of a pod template.
	slices.SortFunc(fields, func(a, b field) int {
		if c := cmp.Compare(len(a.path), len(b.path)); c != 0 {
			return c
		}
		return strings.Compare(a.String(), b.String())
	})
	return fields
}

// unchangedFields returns a predicate for fields that an update merely repeats: a client that reads, modifies and writes
// sends the fields of other managers back. These have the same value in the earlier version. If that version is unknown,
// all fields count as repeated.
func (r *run) unchangedFields(sent map[string]any, live *unstructured.Unstructured) func(path []string) bool {
	version, _, _ := unstructured.NestedString(sent, "metadata", "resourceVersion")
	for _, c := range r.log.Changes() {
		if c.Object.GetUID() == live.GetUID() && c.Object.GetResourceVersion() == version {
			return func(path []string) bool { return reflect.DeepEqual(at(c.Object.Object, path), at(live.Object, path)) }
		}
	}
	return func([]string) bool { return true }
}

// at returns the value at a path, or nil.
func at(v any, path []string) any {
	for _, step := range path {
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

func collectLeaves(fields []field, path []string, sent, live any) []field { //nolint:cyclop // one case for each kind of value
	below := func(step string) []string { return append(slices.Clone(path), step) }
	switch v := sent.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			return fields
		}
		for k, x := range v {
			fields = collectLeaves(fields, below(k), x, l[k])
		}
	case []any:
		l, ok := live.([]any)
		if !ok || len(l) != len(v) {
			return fields
		}
		for i, x := range v {
			fields = collectLeaves(fields, below(strconv.Itoa(i)), x, l[i])
		}
	case string:
		if l, ok := live.(string); ok && l == v && v != "" {
			fields = append(fields, field{path, strconv.Quote(otherText(v))})
		}
	case float64:
		if fmt.Sprint(v) == fmt.Sprint(live) {
			fields = append(fields, field{path, fmt.Sprint(v + 1)})
		}
	case bool:
		if l, ok := live.(bool); ok && l == v {
			fields = append(fields, field{path, strconv.FormatBool(!v)})
		}
	}
	return fields
}

// otherText returns a different text that is probably valid where v is. Base64 stays base64, as in a Secret, and a name
// stays a name.
func otherText(v string) string {
	if strings.HasSuffix(v, "=") || len(v)%4 == 0 && len(v) > 8 {
		return "dGVzdGtpdC1kcmlmdA=="
	}
	return v + "0"
}
