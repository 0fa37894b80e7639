package explore

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// This file finds generated values that were replaced. A comparison of states cannot find them, because it leaves out the
// fields that differ between baseline runs.

// replacements counts the changes of texts outside of metadata and status, in objects that the operator created, by path.
// The count of an object ends with its deletion. Numbers and times do not count: they may be versions and counters.
func (v *view) replacements() map[string]int {
	names, made, all := v.names(v.changes), created(v.operator.Calls()), map[string]int{}
	last := map[types.UID]*unstructured.Unstructured{}
	for _, c := range v.changes {
		uid := c.Object.GetUID()
		if !made[uid] {
			continue
		}
		if before := last[uid]; before != nil {
			for _, field := range replacedTexts(names, before, c) {
				all[names.Of(uid)+"."+field.String()]++
			}
		}
		last[uid] = c.Object
	}
	return all
}

// replacedTexts returns the fields outside of metadata with one text before a change and another one after it.
func replacedTexts(names *state.NameMap, before *unstructured.Unstructured, c history.Change) []state.Field {
	return slices.DeleteFunc(names.ChangedFields(before, c.Object), func(field state.Field) bool {
		if field[0] == "metadata" {
			return true
		}
		a, b := names.At(before, field), names.At(c.Object, field)
		return a == "" || b == "" || a == b || isDecimal(a) && isDecimal(b)
	})
}

func isDecimal(text string) bool { return strings.Trim(text, "0123456789.") == "" }

// checkReplacements finds generated values, such as passwords, that were replaced although the baseline keeps them. A value
// that the baseline replaces as well may be derived from others, except in Secrets.
func (ch checks) checkReplacements() {
	if ch.baseline == nil || ch.plan.SkipCounts && !ch.plan.KeepsObjects {
		return
	}
	for place, n := range ch.replacements() {
		want := ch.baseline.Replacements[place]
		_, isGenerated := ch.baseline.Mask[place]
		if n <= want || want > 0 && !strings.HasPrefix(place, "secrets/") || !isGenerated {
			continue
		}
		ch.addViolation(oracleEndState, fmt.Sprintf("the generated value of %s was replaced %s, and without the fault %s: "+
			"clients that have read it have the old one", place, times(n), times(want)), "")
	}
}
