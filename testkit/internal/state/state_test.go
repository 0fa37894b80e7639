package state_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

func change(resource string, fields map[string]any) history.Change {
	return history.Change{
		Type: watch.Added, Resource: schema.GroupVersionResource{Version: "v1", Resource: resource},
		Object: &unstructured.Unstructured{Object: fields},
	}
}

func object(name, uid string, more map[string]any) map[string]any {
	metadata := map[string]any{"name": name, "uid": uid, "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z"}
	o := map[string]any{"metadata": metadata}
	for k, v := range more {
		if k == "generateName" || k == "generation" || k == "annotations" || k == "managedFields" {
			metadata[k] = v
		} else {
			o[k] = v
		}
	}
	return o
}

func snapshot(namespace string, changes ...history.Change) state.State {
	return state.Snapshot(state.NewNameMap(namespace, changes, nil, time.Time{}), changes,
		func(history.Change) state.Detail { return state.FullStatus })
}

// Two runs of a scenario differ in generated values only.
func TestRunsAreComparable(t *testing.T) {
	t.Parallel()
	one := func(namespace, suffix, uid, at string, generation int64) state.State {
		return snapshot(namespace,
			change("sites", object("shop", uid, map[string]any{
				"generation":  generation,
				"annotations": map[string]any{state.Mark + "poke": at},
				"status": map[string]any{
					"observedGeneration": generation, "pod": "web-" + suffix, "since": at, "url": "http://shop." + namespace,
					"conditions": []any{map[string]any{"type": "Ready", "status": "True", "message": at}},
				},
			})),
			change("pods", object("web-"+suffix, uid+"p", map[string]any{
				"generateName": "web-", "spec": map[string]any{"nodeName": "node-" + suffix, "owner": uid, "peer": "node-" + suffix},
			})),
		)
	}
	a := one("n-1", "x7k2p", "uid-1", "2026-01-01T00:00:00Z", 1)
	b := one("n-2", "q9z4m", "uid-2", "2026-02-02T00:00:00Z", 4)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("they differ (-a +b):\n%s", diff)
	}
	want := state.State{
		"sites/shop": map[string]any{"metadata": map[string]any{}, "status": map[string]any{
			"observedGeneration": "$CURRENT", "pod": "web-~1", "since": "$TIME", "url": "http://shop.$NAMESPACE",
			"conditions": map[string]any{"Ready": "True"},
		}},
		"pods/web-~1": map[string]any{
			"metadata": map[string]any{}, "spec": map[string]any{"owner": "$UID(sites/shop)", "peer": "$NODE"},
		},
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

// Times near now are not compared, also in numbers, texts and names.
func TestTimesNearNow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 4, 5, 6, 0, time.UTC)
	one := func(at time.Time, starts int64) state.State {
		changes := []history.Change{
			change("jobs", object(fmt.Sprintf("backup-%d", at.Unix()), "job-1", nil)),
			change("sites", object("shop", "site-1", map[string]any{"status": map[string]any{
				"changed": at.Unix(), "milliseconds": float64(at.UnixMilli()), "line": "since " + at.String(), "starts": starts,
				"job": fmt.Sprintf("backup-%d", at.Unix()),
			}})),
		}
		names := state.NewNameMap("n-1", changes, nil, now)
		return state.Snapshot(names, changes, func(history.Change) state.Detail { return state.FullStatus })
	}
	if diff := cmp.Diff(one(now, 1), one(now.Add(time.Hour), 1)); diff != "" {
		t.Errorf("two runs differ (-a +b):\n%s", diff)
	}
	if cmp.Equal(one(now, 1), one(now, 2)) {
		t.Error("a number is taken for a time")
	}
}

// Keys of maps may have names and UIDs, as values have.
func TestCanonicalKeys(t *testing.T) {
	t.Parallel()
	const uid = "cc0d248e-5f1e-4c89-8dca-066f10f76ede"
	now := time.Date(2026, 11, 22, 4, 5, 6, 0, time.UTC)
	pod := func(suffix string) history.Change {
		return change("pods", object("web-"+suffix, "pod-"+suffix, map[string]any{"generateName": "web-"}))
	}
	one := func(namespace, uid string, at time.Time, labels map[string]any, first, second string) state.State {
		changes := []history.Change{
			change("sites", object("shop", uid, nil)), pod(first), pod(second),
			change("configmaps", map[string]any{
				"metadata": map[string]any{"name": "shop", "uid": "cm-1", "labels": labels},
				"data": map[string]any{
					"of." + namespace: "a", uid: "b", strconv.FormatInt(at.Unix(), 10): "c", "web-" + first: "d", "web-" + second: "e",
					"list": []any{map[string]any{namespace: "f"}},
				},
			}),
		}
		names := state.NewNameMap(namespace, changes, nil, now)
		return state.Renumber(state.Snapshot(names, changes, func(history.Change) state.Detail { return state.FullStatus }))
	}
	a := one("n-1", uid, now, map[string]any{"from-n-1": "x"}, "1", "2")
	b := one("n-2", "dd0d248e-5f1e-4c89-8dca-066f10f76ede", now.Add(time.Hour), map[string]any{"from-n-2": "x"}, "8", "7")
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("two runs differ (-a +b):\n%s", diff)
	}
	want := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"from-$NAMESPACE": "x"}},
		"data": map[string]any{
			"of.$NAMESPACE": "a", "$UID(sites/shop)": "b", "$TIME": "c", "web-~(1)": "d", "web-~(2)": "e",
			"list": []any{map[string]any{"$NAMESPACE": "f"}},
		},
	}
	if diff := cmp.Diff(want, a["configmaps/shop"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A field without a manager is a default, and may depend on history.
func TestDefaultedFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	s := snapshot("n-1", change("pods", object("web", "uid-1", map[string]any{
		"spec": map[string]any{
			"containers":    []any{map[string]any{"name": "web", "image": "web:1", "imagePullPolicy": "Always"}},
			"restartPolicy": "Always",
		},
		"managedFields": []any{map[string]any{"manager": "op", "operation": "Apply", "fieldsV1": map[string]any{
			"f:spec": map[string]any{"f:containers": map[string]any{
				`k:{"name":"web"}`: map[string]any{".": map[string]any{}, "f:name": map[string]any{}, "f:image": map[string]any{}},
			}},
		}}},
	})))
	want := state.State{"pods/web": map[string]any{"metadata": map[string]any{}, "spec": map[string]any{
		"containers": []any{map[string]any{"name": "web", "image": "web:1"}},
	}}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	s := func(token string, replicas int64, keys ...string) state.State {
		out := state.State{"secrets/a": map[string]any{"data": map[string]any{"token": token}, "n": []any{replicas, "x"}}}
		for _, k := range keys {
			out[k] = nil
		}
		return out
	}
	m := state.Mask{}
	if unsteady := m.AddDifferences(s("abc", 1), s("def", 1, "pods/extra")); !cmp.Equal(unsteady, []string{"pods/extra"}) {
		t.Errorf("unsteady: %v", unsteady)
	}
	if diff := m.Diff(s("ghi", 1), s("jkl", 1)); diff != "" {
		t.Errorf("a masked difference counts:\n%s", diff)
	}
	if m.Diff(s("abc", 1), s("abc", 2)) == "" {
		t.Error("an unmasked difference does not count")
	}
}

// A path whose values differ without a fault must be there. One that only some of the states have need not.
func TestMaskComparesPresence(t *testing.T) {
	t.Parallel()
	web := func(annotations map[string]any) state.State {
		if annotations == nil {
			return state.State{"pods/web": map[string]any{}}
		}
		return state.State{"pods/web": map[string]any{"annotations": annotations}}
	}
	m := state.Mask{}
	m.AddDifferences(web(map[string]any{"digest": "a", "run": "1"}), web(map[string]any{"digest": "b"}))
	for name, test := range map[string]struct {
		want, got state.State
		equal     bool
	}{
		"OtherValue":    {web(map[string]any{"digest": "a"}), web(map[string]any{"digest": "c"}), true},
		"WithoutValue":  {web(map[string]any{"digest": "a"}), web(map[string]any{}), false},
		"WithoutParent": {web(map[string]any{"digest": "a"}), web(nil), false},
		"Unsteady":      {web(map[string]any{"digest": "a", "run": "2"}), web(map[string]any{"digest": "a"}), true},
		"UnsteadyAlone": {web(map[string]any{"run": "2"}), web(nil), true},
		"WithoutObject": {web(map[string]any{"run": "2"}), state.State{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := m.Diff(test.want, test.got); (diff == "") != test.equal {
				t.Errorf("equal: %t, want %t: %s", diff == "", test.equal, diff)
			}
		})
	}
}

// A name may contain the UID of another object, or its first part. Objects refer to each other by name.
func TestNamesWithoutUIDs(t *testing.T) {
	t.Parallel()
	const uid = "cc0d248e-5f1e-4c89-8dca-066f10f76ede"
	got := snapshot("n-1",
		change("sites", object("shop", uid, nil)),
		change("configmaps", object("cfg-cc0d248e", "2", nil)),
		change("secrets", object("key-"+uid, "3", map[string]any{"of": "cfg-cc0d248e"})),
	)
	want := state.State{
		"sites/shop":                      map[string]any{"metadata": map[string]any{}},
		"configmaps/cfg-$UID(sites/shop)": map[string]any{"metadata": map[string]any{}},
		"secrets/key-$UID(sites/shop)":    map[string]any{"metadata": map[string]any{}, "of": "cfg-$UID(sites/shop)"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An object with a generated name compares equal to its replacement.
func TestRenumber(t *testing.T) {
	t.Parallel()
	shard := func(uid, of string) history.Change {
		return change("pods", object("web-"+uid, uid, map[string]any{"generateName": "web-", "of": of}))
	}
	first, second, third := shard("1", "a"), shard("2", "b"), shard("3", "a")
	whole := func(history.Change) state.Detail { return state.FullStatus }
	names := state.NewNameMap("n-1", []history.Change{first, second, third}, nil, time.Time{})
	before := state.Renumber(state.Snapshot(names, []history.Change{first, second}, whole))
	after := state.Renumber(state.Snapshot(names, []history.Change{second, third}, whole))
	if diff := cmp.Diff(before, after); diff != "" || len(after) != 2 {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// An operator may generate names itself, such as one with a timestamp.
func TestGeneratedNames(t *testing.T) {
	t.Parallel()
	whole := func(history.Change) state.Detail { return state.FullStatus }
	one := func(made string, generated state.GeneratedNames) state.State {
		changes := []history.Change{
			change("jobs", object("backup-2026-"+made, made, nil)), change("jobs", object("restore", "r"+made, nil)),
			change("jobs", object("backup-2027-"+made, made+"7", nil)),
		}
		return state.Snapshot(state.NewNameMap("n-1", changes, generated, time.Time{}), changes, whole)
	}
	generated := state.GeneratedNames{}
	if !generated.AddDifferences(one("111", nil), one("122", nil)) {
		t.Fatal("no generated name was found")
	}
	if generated.AddDifferences(one("111", generated), one("122", generated)) {
		t.Error("a known generated name was reported as new")
	}
	want := []string{"jobs/backup-2026-~1", "jobs/backup-2027-~1", "jobs/restore"}
	if got := slices.Sorted(maps.Keys(one("133", generated))); !slices.Equal(got, want) {
		t.Errorf("the names are %q, want %q", got, want)
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	want := state.State{
		"configmaps/a": map[string]any{"data": map[string]any{"level": "1", "old": "x"}, "spec": map[string]any{"n": int64(1)}},
		"secrets/b":    map[string]any{"data": map[string]any{"password": "c2VjcmV0", "user": "YQ=="}, "type": "Opaque"},
		"services/c":   map[string]any{},
	}
	got := state.State{
		"configmaps/a": map[string]any{"data": map[string]any{"level": "2", "new": true}, "spec": map[string]any{"n": int64(1)}},
		"secrets/b":    map[string]any{"data": map[string]any{"password": "b3RoZXI=", "user": "YQ=="}, "type": "TLS"},
		"services/d":   map[string]any{},
	}
	const differs = `  configmaps/a
-   data.level: "1"
+   data.level: "2"
+   data.new: true
-   data.old: "x"
  secrets/b
-   data.password: (hidden, 1c11)
+   data.password: (hidden, b6bd)
-   type: "Opaque"
+   type: "TLS"
- services/c
+ services/d
`
	if diff := cmp.Diff(differs, state.Difference(want, got)); diff != "" {
		t.Error(diff)
	}
	if diff := state.Difference(want, want); diff != "" {
		t.Errorf("equal states differ:\n%s", diff)
	}
}

func TestCountSkips(t *testing.T) {
	t.Parallel()
	all := state.Count{Created: 3, Deleted: 1}
	for got, want := range map[state.Count]bool{
		{Created: 2}:             true,
		{Created: 3, Deleted: 1}: false, // equal
		{Created: 2, Deleted: 1}: false, // one is missing in the end
		{Created: 4, Deleted: 2}: false, // one more was made
		{Created: 3}:             false, // one is left
	} {
		if is := got.SkipsFrom(all); is != want {
			t.Errorf("%v.SkipsFrom(%v) is %v", got, all, is)
		}
	}
}
