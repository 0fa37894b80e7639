package schema_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// TestMutationsOf checks the proposals for single properties of the sample.
func TestMutationsOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		want   []string
	}{
		"spec.engine": {"the other member; it is required", []string{`spec.engine: "postgres" -> "mysql"`}},
		"spec.paused": {"both values of an absent boolean", []string{"spec.paused: unset -> true", "spec.paused: unset -> false"}},
		"spec.logLevel": {"the default is a value like others if it is explicit", []string{
			`spec.logLevel: unset -> "info"`, `spec.logLevel: unset -> "debug"`, `spec.logLevel: unset -> "error"`,
		}},
		"spec.members": {"more, fewer, none, the bounds, and the server's default", []string{
			"spec.members: 3 -> 1", "spec.members: 3 -> 4", "spec.members: 3 -> 2",
			"spec.members: 3 -> 0", "spec.members: 3 -> 9", "spec.members: 3 -> unset",
		}},
		"spec.backup.enabled": {"toggled", []string{"spec.backup.enabled: true -> false"}},
		"spec.backup.keep": {"bounds and their neighbors, zero is too small", []string{
			"spec.backup.keep: unset -> 7", "spec.backup.keep: unset -> 1", "spec.backup.keep: unset -> 365",
		}},
		"spec.storage.size": {"the same in another notation, more and less", []string{
			`spec.storage.size: "1Gi" -> "2Gi"`, `spec.storage.size: "1Gi" -> "1073741824"`, `spec.storage.size: "1Gi" -> "512Mi"`,
			`spec.storage.size: "1Gi" -> "500m"`, `spec.storage.size: "1Gi" -> "0"`, `spec.storage.size: "1Gi" -> "1"`,
			`spec.storage.size: "1Gi" -> "2e3"`,
		}},
		"spec.image": {"tags, digests, and none", []string{
			`spec.image: "example.com/postgres:15.4" -> "example.com/postgres:testkit"`,
			`spec.image: "example.com/postgres:15.4" -> "example.com/postgres"`,
			`spec.image: "example.com/postgres:15.4" -> "example.com/postgres@sha256:` +
				`0123456789abcdef0123456789abcdef0123456789a... (92 characters)`,
			`spec.image: "example.com/postgres:15.4" -> "testkit.invalid/absent:1"`,
			`spec.image: "example.com/postgres:15.4" -> ""`,
			`spec.image: "example.com/postgres:15.4" -> unset`,
		}},
		"spec.version": {"strings that match the pattern, of several lengths", []string{
			`spec.version: "15.4" -> "0.0"`, `spec.version: "15.4" -> "1.1"`, `spec.version: "15.4" -> "2.2"`,
			`spec.version: "15.4" -> "000000.0"`, `spec.version: "15.4" -> "0000000000.0"`,
		}},
		"spec.priority": {"numbers between the bounds", []string{
			"spec.priority: unset -> 1", "spec.priority: unset -> 0.5", "spec.priority: unset -> 0",
		}},
		"spec.note": {"null is a value if the schema allows it", []string{
			`spec.note: unset -> "testkit"`, `spec.note: unset -> "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`,
			`spec.note: unset -> ""`, `spec.note: unset -> "é \"q\" 's' {{ .x }} $(y) # z: -"`, "spec.note: unset -> null",
		}},
		"spec.notBefore": {"times in the past, the future, another zone", []string{
			`spec.notBefore: unset -> "2030-01-02T03:04:05Z"`, `spec.notBefore: unset -> "2001-02-03T04:05:06Z"`,
			`spec.notBefore: unset -> "2030-01-02T05:04:05+02:00"`, `spec.notBefore: unset -> "2030-01-02T03:04:05.678901Z"`,
		}},
		"spec.maxUnavailable": {"numbers and percentages", []string{
			"spec.maxUnavailable: unset -> 1", "spec.maxUnavailable: unset -> 0", `spec.maxUnavailable: unset -> "50%"`,
			`spec.maxUnavailable: unset -> "100%"`, `spec.maxUnavailable: unset -> "0%"`, `spec.maxUnavailable: unset -> "testkit"`,
			"spec.maxUnavailable: unset -> 2147483647", "spec.maxUnavailable: unset -> -1",
		}},
		"spec.parameters": {"keys are added and removed", []string{
			"spec.parameters: {\"max_connections\":\"100\",\"shared_buffers\":\"128MB\"} -> {}",
			`spec.parameters.testkit: unset -> "testkit"`,
			`spec.parameters.max_connections: "100" -> unset`, `spec.parameters.shared_buffers: "128MB" -> unset`,
			"spec.parameters: {\"max_connections\":\"100\",\"shared_buffers\":\"128MB\"} -> unset",
		}},
		"spec.allowedNetworks": {"a set has no duplicates", []string{
			`spec.allowedNetworks[2]: unset -> "10.1.2.3/8"`,
			`spec.allowedNetworks[1]: "192.0.2.0/24" -> unset`,
			`spec.allowedNetworks: ["10.0.0.0/8","192.0.2.0/24"] -> ["192.0.2.0/24"]`,
			`spec.allowedNetworks: ["10.0.0.0/8","192.0.2.0/24"] -> ["192.0.2.0/24","10.0.0.0/8"]`,
			`spec.allowedNetworks: ["10.0.0.0/8","192.0.2.0/24"] -> []`,
			`spec.allowedNetworks: ["10.0.0.0/8","192.0.2.0/24"] -> unset`,
		}},
		"spec.arguments": {"other lists may have duplicates", []string{
			`spec.arguments[3]: unset -> "testkit"`, `spec.arguments[3]: unset -> "-v"`, `spec.arguments[2]: "-v" -> unset`,
			`spec.arguments: ["-c","log_statement=all","-v"] -> ["log_statement=all","-v"]`,
			`spec.arguments: ["-c","log_statement=all","-v"] -> ["-v"]`,
			`spec.arguments: ["-c","log_statement=all","-v"] -> ["-v","log_statement=all","-c"]`,
			`spec.arguments: ["-c","log_statement=all","-v"] -> []`,
			`spec.arguments: ["-c","log_statement=all","-v"] -> unset`,
		}},
		"spec.source": {"alternatives that exclude each other", []string{
			`spec.source.snapshot.name: "monday" -> "testkit"`, // the least that the schema requires
			`spec.source: {"snapshot":{"name":"monday"}} -> {"clone":{}}`,
			`spec.source: {"snapshot":{"name":"monday"}} -> unset`,
		}},
		"spec.exposure": {"as above, although only a CEL rule requires it", []string{
			`spec.exposure.nodePort: {"port":30001} -> unset`,
			`spec.exposure: {"nodePort":{"port":30001}} -> {"loadBalancer":{}}`,
			`spec.exposure: {"nodePort":{"port":30001}} -> unset`,
		}},
		"spec.exposure.loadBalancer.class": {"a missing parent is created with it", []string{
			`spec.exposure.loadBalancer.class: unset -> "testkit" (with spec.exposure.loadBalancer)`,
			`spec.exposure.loadBalancer.class: unset -> "" (with spec.exposure.loadBalancer)`,
			`spec.exposure.loadBalancer.class: unset -> "` + strings.Repeat("a", 71) + `... (300 characters)` +
				` (with spec.exposure.loadBalancer)`,
			`spec.exposure.loadBalancer.class: unset -> "é \"q\" 's' {{ .x }} $(y) # z: -" (with spec.exposure.loadBalancer)`,
		}},
		"spec.sidecar": {"an object of Kubernetes", []string{
			`spec.sidecar: unset -> {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"testkit"}}`,
			`spec.sidecar: unset -> {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"testkit"},"tes... (88 bytes of JSON)`,
		}},
		"spec.extra": {"any value is valid", []string{"spec.extra: unset -> {}", `spec.extra: unset -> {"testkit":"testkit"}`}},
		"metadata.labels": {"one more, and none", []string{
			`metadata.labels[testkit.example.com/label]: unset -> "testkit"`,
			`metadata.labels: {"app.kubernetes.io/part-of":"shop"} -> unset`,
		}},
		"spec.exposure.nodePort.port": {"a range of its own", []string{
			"spec.exposure.nodePort.port: 30001 -> 30000", "spec.exposure.nodePort.port: 30001 -> 32767",
			"spec.exposure.nodePort.port: 30001 -> unset",
		}},
		"spec.unknown": {"there is no such property", nil},
	}
	for property, tc := range tests {
		t.Run(property, func(t *testing.T) {
			t.Parallel()
			changes, err := database(t).MutationsOf(sample(t), property)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range changes {
				got = append(got, c.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestMutationDiffersOnlyAtItsPath checks that a change alters its path and nothing else.
func TestMutationDiffersOnlyAtItsPath(t *testing.T) {
	t.Parallel()
	for name, tc := range subjects(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.object.DeepCopy()
			changes := mutations(t, tc.schema, tc.object)
			if !reflect.DeepEqual(before, tc.object) {
				t.Fatal("the object was changed")
			}
			ids := map[string]bool{}
			for _, c := range changes {
				checkChange(t, tc.object, c)
				if ids[c.ID] {
					t.Errorf("two changes are called %s", c.ID)
				}
				ids[c.ID] = true
				if !slices.Contains(tc.schema.Properties(), c.Property) {
					t.Errorf("%s is about a property that the schema does not have: %s", c.ID, c.Property)
				}
			}
		})
	}
}

func checkChange(t *testing.T, parent *unstructured.Unstructured, c schema.Change) {
	t.Helper()
	changed, ok := c.Apply(parent)
	switch {
	case !ok:
		t.Errorf("%s cannot be applied", c.ID)
		return
	case reflect.DeepEqual(changed, parent):
		t.Errorf("%s (%v) changes nothing", c.ID, c)
	case !reflect.DeepEqual(c.Path.Get(parent.Object), c.From):
		t.Errorf("%s: before is %v and not %v", c.ID, c.Path.Get(parent.Object), c.From)
	case !reflect.DeepEqual(c.Path.Get(changed.Object), c.To):
		t.Errorf("%s: after is %v and not %v", c.ID, c.Path.Get(changed.Object), c.To)
	}
	undone, ok := schema.Change{Path: c.Path, To: c.From}.Apply(changed)
	if !ok || !reflect.DeepEqual(undone, parent) {
		t.Errorf("%s changes more than %s: %s", c.ID, c.Path, cmp.Diff(parent.Object, undone.Object))
	}
}

// TestMutationsAreWithinTheSchema checks that proposals fit the schema, also after a long random walk.
func TestMutationsAreWithinTheSchema(t *testing.T) {
	t.Parallel()
	for name, tc := range subjects(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := tc.object
			for i := range 2 {
				changes := mutations(t, tc.schema, object)
				for at := i; at < len(changes); at += 2 {
					c := changes[at]
					changed, _ := c.Apply(object)
					if errs, err := tc.schema.Violations(changed); err != nil || len(errs) > 0 {
						t.Fatalf("%s leads to an invalid object: %v %v", c.ID, err, errs)
					}
				}
				object, _ = changes[i*7919%len(changes)].Apply(object)
			}
		})
	}
}

func TestMutationsAreDeterministic(t *testing.T) {
	t.Parallel()
	list := func() string {
		var b strings.Builder
		for _, c := range mutations(t, database(t), sample(t)) {
			b.WriteString(c.ID + " " + c.String() + "\n")
		}
		return b.String()
	}
	first := list()
	for range 2 {
		if got := list(); got != first {
			t.Fatalf("-first +other:\n%s", cmp.Diff(first, got))
		}
	}
}

// TestMutationsReachEveryProperty checks that every property that can be changed is changed.
func TestMutationsReachEveryProperty(t *testing.T) {
	t.Parallel()
	never := map[string][]string{
		// No value fits, or none that a user would send.
		"oddities": {"spec.tooMany", "spec.tooMany[*]", "spec.tooLong", "spec.impossible"},
	}
	for name, tc := range subjects(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reached := map[string]bool{}
			for _, c := range mutations(t, tc.schema, tc.object) {
				reached[c.Property] = true
			}
			for _, p := range tc.schema.Properties() {
				if want := !slices.Contains(never[strings.Split(name, ",")[0]], p); reached[p] != want {
					t.Errorf("%s is changed: %v, want %v", p, reached[p], want)
				}
			}
		})
	}
}

// TestMutationsOfAStoredObject checks an object with the fields that the API server adds to a manifest.
func TestMutationsOfAStoredObject(t *testing.T) {
	t.Parallel()
	stored := sample(t)
	stored.SetUID("1")
	stored.SetResourceVersion("2")
	stored.SetManagedFields(nil)
	stored.Object["status"] = map[string]any{"members": int64(3)}
	for _, c := range mutations(t, database(t), stored) {
		meta := c.Path[0].Name == "metadata" && c.Path[1].Name != "labels" && c.Path[1].Name != "annotations"
		if meta || c.Path[0].Name == "status" {
			t.Errorf("users do not change %v", c)
		}
	}
}

// TestMutationsOfAnIncompleteSample checks a sample without a required field, because a webhook may fill it in. The
// other properties are still changed.
func TestMutationsOfAnIncompleteSample(t *testing.T) {
	t.Parallel()
	incomplete := sample(t)
	unstructured.RemoveNestedField(incomplete.Object, "spec", "version")
	changes, err := database(t).MutationsOf(incomplete, "spec.members")
	if err != nil || len(changes) == 0 {
		t.Errorf("no change is proposed: %v", err)
	}
}

type subject struct {
	schema *schema.Schema
	object *unstructured.Unstructured
}

func subjects(t *testing.T) map[string]subject {
	t.Helper()
	odd := parse(t, "testdata/oddities.yaml")
	empty := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "o"}}}
	empty.SetGroupVersionKind(odd.Kind)
	full := empty.DeepCopy()
	full.Object["spec"] = map[string]any{
		"groups":  map[string]any{"a": []any{}, "b": []any{map[string]any{"odd.name/x y": true}}, "c": nil},
		"members": []any{map[string]any{"port": int64(1)}, map[string]any{"port": int64(1), "protocol": "UDP"}},
		"matrix":  []any{[]any{}, []any{1.5, int64(2)}},
		"pairs":   []any{true},
		"choice":  map[string]any{"a": "abc"},
		"free":    []any{int64(1)},
		"big":     int64(9223372036854775807),
		"count":   "3", "size": "small",
	}
	immortal := parse(t, "testdata/crd/immortals.yaml")
	return map[string]subject{
		"immortal": {immortal, first(t, immortal, "testdata/immortal.yaml")},
		"database": {database(t), sample(t)},
		"oddities": {odd, empty}, "oddities, all set": {odd, full},
	}
}

func mutations(t testing.TB, s *schema.Schema, object *unstructured.Unstructured) []schema.Change {
	t.Helper()
	changes, err := s.Mutations(object)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}
