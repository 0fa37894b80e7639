package explore_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
)

// changed returns an event about an object that has its UID, its version and the UIDs of its owners.
func changed(event watch.EventType, uid, version string, owners ...string) history.Change {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetUID(types.UID(uid))
	u.SetResourceVersion(version)
	var references []metav1.OwnerReference
	for _, owner := range owners {
		references = append(references, metav1.OwnerReference{UID: types.UID(owner)})
	}
	u.SetOwnerReferences(references)
	return history.Change{Type: event, Object: u}
}

func TestBornGarbage(t *testing.T) {
	t.Parallel()
	parentGone := changed(watch.Deleted, "parent", "20")
	for name, test := range map[string]struct {
		reason  string
		changes []history.Change
		want    string
	}{
		"Before": {"the owner still existed", []history.Change{changed(watch.Added, "child", "19", "parent"), parentGone}, ""},
		"After":  {"the owner was gone", []history.Change{parentGone, changed(watch.Added, "child", "21", "parent")}, "child"},
		"Order": {
			"watches of two kinds are not in order",
			[]history.Change{changed(watch.Added, "child", "100", "parent"), parentGone},
			"child",
		},
		"Changed":  {"it is older", []history.Change{parentGone, changed(watch.Modified, "child", "21", "parent")}, ""},
		"Own":      {"it has no owner", []history.Change{parentGone, changed(watch.Added, "child", "21")}, ""},
		"Another":  {"its owner exists", []history.Change{parentGone, changed(watch.Added, "child", "21", "successor")}, ""},
		"One left": {"one owner exists", []history.Change{parentGone, changed(watch.Added, "child", "21", "parent", "other")}, ""},
	} {
		garbage := explore.BornGarbage(test.changes)
		maps.DeleteFunc(garbage, func(_ types.UID, is bool) bool { return !is })
		var got []string
		for uid := range garbage {
			got = append(got, string(uid))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %q, because %s", name, got, test.want, test.reason)
		}
	}
}
