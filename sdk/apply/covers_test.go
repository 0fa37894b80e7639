package apply

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// widget returns an object of a kind without a schema, with this record of our fields.
func widget(spec map[string]any, owned string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion("example.com/v1")
	u.SetKind("Widget")
	u.SetName("a")
	if owned != "" {
		u.SetUID("1")
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "us", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(owned),
		}})
	}
	return u
}

// TestConvergedWithAmbiguousRecord covers maps and lists that are recorded without fields below them: they are atomic and
// ours, or other managers own everything below. The values decide.
func TestConvergedWithAmbiguousRecord(t *testing.T) {
	t.Parallel()
	wanted := map[string]any{"map": map[string]any{"text": "hello", "size": "1024Mi", "n": int64(0)}, "list": []any{"x"}}
	const all = `{"f:metadata":{"f:annotations":{"f:homeostat.dev/applied":{}}},
		"f:spec":{".":{},"f:map":{".":{},"f:text":{},"f:size":{},"f:n":{}},"f:list":{}}}`
	const whole = `{"f:metadata":{"f:annotations":{"f:homeostat.dev/applied":{}}},"f:spec":{".":{},"f:map":{},"f:list":{}}}`
	for name, test := range map[string]struct {
		spec  map[string]any
		owned string
		want  bool
	}{
		"each field is ours": {wanted, all, true},
		"each field is ours, and not what was sent": {
			map[string]any{"map": map[string]any{"text": "rewritten"}, "list": []any{"x"}}, all, true,
		},
		"the map is ours": {wanted, whole, true},
		"... with defaults and in other units": {
			map[string]any{"map": map[string]any{"text": "hello", "size": "1Gi", "more": "x"}, "list": []any{"x"}}, whole, true,
		},
		"another manager took the entries": {
			map[string]any{"map": map[string]any{"text": "changed", "size": "1Gi"}, "list": []any{"x"}}, whole, false,
		},
		"the map has become a string":    {map[string]any{"map": "text", "list": []any{"x"}}, whole, false},
		"the map is missing":             {map[string]any{"list": []any{"x"}}, whole, false},
		"admission made the list longer": {map[string]any{"map": wanted["map"], "list": []any{"y", "x"}}, whole, true},
		"another manager took the items": {map[string]any{"map": wanted["map"], "list": []any{"y"}}, whole, false},
		"the map is not ours":            {wanted, `{"f:spec":{".":{},"f:list":{}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, err := NewIntent(widget(wanted, ""), scheme.Scheme)
			if err != nil {
				t.Fatal(err)
			}
			live := widget(test.spec, test.owned)
			live.SetAnnotations(map[string]string{DigestAnnotation: i.Digest()})
			if got := NewFieldManager("us").Converged(i, live); got != test.want {
				t.Errorf("converged: %t, want %t", got, test.want)
			}
		})
	}
}

// TestItemsWithDefaultedKeys checks that an item with a defaulted key does not match the element of another item.
func TestItemsWithDefaultedKeys(t *testing.T) {
	t.Parallel()
	https, h3 := map[string]any{"port": int64(443)}, map[string]any{"port": int64(443), "protocol": "UDP"}
	const tcp, udp = `"k:{\"port\":443,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}`,
		`"k:{\"port\":443,\"protocol\":\"UDP\"}":{".":{},"f:port":{},"f:protocol":{}}`
	const digest = `"f:metadata":{"f:annotations":{"f:homeostat.dev/applied":{}}}`
	for name, test := range map[string]struct {
		intended []any
		owned    string
		want     bool
	}{
		"both exist":                  {[]any{https, h3}, tcp + "," + udp, true},
		"... in another order":        {[]any{h3, https}, tcp + "," + udp, true},
		"another manager removed one": {[]any{https, h3}, udp, false},
		"... and the other":           {[]any{https, h3}, tcp, false},
		"one item":                    {[]any{https}, tcp, true},
	} {
		ports := map[string]any{"ports": test.intended}
		i, err := NewIntent(widget(ports, ""), scheme.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		live := widget(ports, `{`+digest+`,"f:spec":{"f:ports":{`+test.owned+`}}}`)
		live.SetAnnotations(map[string]string{DigestAnnotation: i.Digest()})
		if got := NewFieldManager("us").Converged(i, live); got != test.want {
			t.Errorf("%s: converged: %t, want %t", name, got, test.want)
		}
	}
}

// TestConvergedByMetadata checks that, for metadata alone, the first ambiguous record counts as converged and a changed one
// does not.
func TestConvergedByMetadata(t *testing.T) {
	t.Parallel()
	desired := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "a"}},
	}
	i, err := NewIntent(desired, scheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	live := func(version, owned string) client.Object {
		o := widget(nil, owned)
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			UID: types.UID("1"), ResourceVersion: version, ManagedFields: o.GetManagedFields(),
			Annotations: map[string]string{DigestAnnotation: i.Digest()},
		}}
	}
	const digest = `"f:metadata":{"f:annotations":{"f:homeostat.dev/applied":{}}}`
	m := NewFieldManager("us")
	for _, read := range []struct {
		version, owned string
		want           bool
	}{
		{"1", `{` + digest + `,"f:spec":{"f:selector":{},"f:other":{}}}`, true},
		{"2", `{` + digest + `,"f:spec":{"f:selector":{},"f:other":{}}}`, true},
		{"3", `{` + digest + `,"f:spec":{"f:selector":{}}}`, false},
	} {
		if got := m.Converged(i, live(read.version, read.owned)); got != read.want {
			t.Errorf("version %s: converged: %t, want %t", read.version, got, read.want)
		}
	}
}
