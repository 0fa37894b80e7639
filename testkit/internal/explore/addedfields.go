package explore

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// This file determines the fields that the operator added to objects. A field that another client wrote later belongs to
// that client.

// addedFields returns the canonical fields that the operator added to existing objects of the scenario, such as an
// annotation, by the canonical name of the object. Custom resources are excluded.
func (v *view) addedFields() map[string][]state.Field {
	made := created(v.user.Calls())
	return v.fieldsOfOperator(func(c history.Change, before *unstructured.Unstructured, _ state.Field) bool {
		return made[c.Object.GetUID()] && before != nil && !readiness.IsCustom(c.Object)
	})
}

// metadataFields returns the canonical labels and annotations that the operator set in its existing objects, by the
// canonical name of the object.
func (v *view) metadataFields() map[string][]state.Field {
	made := created(v.operator.Calls())
	return v.fieldsOfOperator(func(c history.Change, _ *unstructured.Unstructured, f state.Field) bool {
		return made[c.Object.GetUID()] && f[0] == "metadata"
	})
}

// fieldsOfOperator returns the fields that the operator added and that the predicate selects. before is nil for a creation.
func (v *view) fieldsOfOperator(
	selects func(c history.Change, before *unstructured.Unstructured, f state.Field) bool,
) map[string][]state.Field {
	changes := v.log.Changes()
	names, versions := v.names(changes), versionsOf(v.operator.Calls())
	last, fields := map[types.UID]*unstructured.Unstructured{}, map[types.UID][]state.Field{}
	for _, c := range changes {
		uid := c.Object.GetUID()
		before := last[uid]
		last[uid] = c.Object
		isOurs := versions[uid][c.Object.GetResourceVersion()]
		old := before
		if old == nil {
			old = &unstructured.Unstructured{Object: map[string]any{}}
		}
		for _, f := range names.ChangedFields(old, c.Object) {
			was, _ := names.Find(old, f)
			is, _ := names.Find(c.Object, f)
			known := slices.ContainsFunc(fields[uid], f.Equal)
			switch {
			case isOurs && was == nil && is != nil && !known && selects(c, before, f):
				fields[uid] = append(fields[uid], f)
			case known && (!isOurs || is == nil):
				fields[uid] = slices.DeleteFunc(fields[uid], f.Equal)
			}
		}
	}
	all := map[string][]state.Field{}
	for _, c := range v.log.CurrentObjects() {
		if added := fields[c.Object.GetUID()]; len(added) > 0 {
			all[names.Of(c.Object.GetUID())] = added
		}
	}
	return all
}
