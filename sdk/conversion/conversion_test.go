package conversion_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/homeostat-dev/homeostat/sdk/conversion"
)

// object returns a Team with this content, in JSON.
func object(t *testing.T, version, content string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := utiljson.Unmarshal([]byte(content), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetAPIVersion("example.com/" + version)
	u.SetKind("Team")
	u.SetName("web")
	u.SetNamespace("shop")
	return u
}

func convert(t *testing.T, u *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	converted, err := team().Convert(u, version)
	if err != nil {
		t.Fatal(err)
	}
	return converted
}

// spec returns the spec of an object in JSON.
func spec(u *unstructured.Unstructured) string {
	data, _ := json.Marshal(u.Object["spec"])
	return string(data)
}

func set(t *testing.T, u *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

func TestLenses(t *testing.T) {
	for name, c := range map[string]struct{ alpha, beta string }{
		"rename": {`{"mail":"a@b"}`, `{"contact":{"mail":"a@b"},"plan":"free","quota":3}`},
		"values": {`{"tier":"big"}`, `{"class":"l","plan":"free","quota":3}`},
		"join":   {`{"number":7,"prefix":"ab","size":"2Gi"}`, `{"code":"ab-7","plan":"free","quota":3,"sizeGi":2}`},
		"split":  {`{"image":"nginx:1"}`, `{"image":{"repository":"nginx","tag":"1"},"plan":"free","quota":3}`},
		"wrap":   {`{"owner":"ann"}`, `{"owners":["ann"],"plan":"free","quota":3}`},
		"each": {
			`{"groups":{"g":{"size":1}},"members":[{"name":"ann","role":"dev"}]}`,
			`{"groups":{"g":{"members":1}},"people":[{"login":"ann","role":"developer"}],"plan":"free","quota":3}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			beta := convert(t, object(t, "v1alpha1", `{"spec":`+c.alpha+`}`), "v1beta1")
			if d := cmp.Diff(c.beta, spec(beta)); d != "" {
				t.Errorf("to the hub (-want +got):\n%s", d)
			}
			alpha := convert(t, beta, "v1alpha1")
			if d := cmp.Diff(c.alpha, spec(alpha)); d != "" {
				t.Errorf("to the spoke (-want +got):\n%s", d)
			}
			if a := alpha.GetAnnotations(); a != nil {
				t.Errorf("nothing has to be kept, and the annotations are %v", a)
			}
		})
	}
}

// What the other version shows decides if a kept value is restored.
func TestKeptValues(t *testing.T) {
	for name, c := range map[string]struct {
		beta string
		// edit is done by a client of v1alpha1
		edit func(t *testing.T, u *unstructured.Unstructured)
		want string
	}{
		"another field is changed": {
			`{"class":"xl","plan":"paid","quota":9}`,
			func(t *testing.T, u *unstructured.Unstructured) { set(t, u, "a@b", "spec", "mail") },
			`{"class":"xl","contact":{"mail":"a@b"},"plan":"paid","quota":9}`,
		},
		"the approximate value is changed": {
			`{"class":"xl","plan":"paid"}`,
			func(t *testing.T, u *unstructured.Unstructured) { set(t, u, "small", "spec", "tier") },
			`{"class":"s","plan":"paid"}`,
		},
		"the object around the value is removed": {
			`{"limits":{"cpu":1,"memory":"1Gi"},"plan":"paid"}`,
			func(_ *testing.T, u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "spec", "limits")
			},
			`{"plan":"paid"}`,
		},
		"the object around the value is not in v1alpha1": {
			`{"contact":{"mail":"a@b","phone":"1"},"plan":"paid"}`,
			func(_ *testing.T, u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "spec", "mail")
			},
			`{"contact":{"phone":"1"},"plan":"paid"}`,
		},
		"list items are moved, removed and added": {
			`{"people":[{"login":"ann","admin":true},{"login":"bob","admin":true},{"login":"cy"}],"plan":"free"}`,
			func(t *testing.T, u *unstructured.Unstructured) {
				set(t, u, []any{
					map[string]any{"name": "dee"}, map[string]any{"name": "bob", "role": "ops"}, map[string]any{"name": "cy"},
				}, "spec", "members")
			},
			`{"people":[{"login":"dee"},{"admin":true,"login":"bob","role":"operator"},{"login":"cy"}],"plan":"free"}`,
		},
		"the first item of a wrapped list is changed": {
			`{"owners":["ann","bob"],"plan":"free"}`,
			func(t *testing.T, u *unstructured.Unstructured) { set(t, u, "cy", "spec", "owner") },
			`{"owners":["cy"],"plan":"free"}`,
		},
		"the annotation is removed": {
			`{"plan":"paid"}`,
			func(_ *testing.T, u *unstructured.Unstructured) { u.SetAnnotations(nil) },
			`{"plan":"free","quota":3}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			alpha := convert(t, object(t, "v1beta1", `{"spec":`+c.beta+`}`), "v1alpha1")
			c.edit(t, alpha)
			if d := cmp.Diff(c.want, spec(convert(t, alpha, "v1beta1"))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A value of v1alpha1 is stored in v1beta1, and a client of v1beta1 changes what it corresponds to.
func TestStaleValueIsDropped(t *testing.T) {
	beta := convert(t, object(t, "v1alpha1", `{"spec":{"size":"1Ti","color":"red"}}`), "v1beta1")
	want := map[string][]string{"v1alpha1": {"spec.color", "spec.size"}}
	if d := cmp.Diff(want, conversion.Kept(beta.GetAnnotations())); d != "" {
		t.Errorf("kept (-want +got):\n%s", d)
	}
	if got := spec(convert(t, beta, "v1alpha1")); got != `{"color":"red","size":"1Ti"}` {
		t.Errorf("unchanged, the spec is %s", got)
	}
	set(t, beta, int64(5), "spec", "sizeGi")
	if got := spec(convert(t, beta, "v1alpha1")); got != `{"color":"red","size":"5Gi"}` {
		t.Errorf("changed, the spec is %s", got)
	}
}

func TestOtherMetadataIsUnchanged(t *testing.T) {
	u := object(t, "v1beta1", `{"spec":{"quota":9},"metadata":{"uid":"1","annotations":{"a":"b"},"labels":{"c":"d"},
		"managedFields":[{"manager":"m","apiVersion":"example.com/v1beta1"}]}}`)
	for _, version := range []string{"v1alpha1", "v1alpha2"} {
		got := convert(t, u, version)
		annotations := got.GetAnnotations()
		if annotations[conversion.Annotation] == "" {
			t.Errorf("%s: the quota is not kept", version)
		}
		delete(annotations, conversion.Annotation)
		got.SetAnnotations(annotations)
		if d := cmp.Diff(u.Object["metadata"], got.Object["metadata"]); d != "" {
			t.Errorf("%s (-want +got):\n%s", version, d)
		}
	}
}

// A client may write anything into the annotation.
func TestForgedAnnotation(t *testing.T) {
	for name, annotation := range map[string]string{
		"no JSON":                 "{",
		"no record":               `{"v1beta1":[]}`,
		"an invalid value":        `{"v1beta1":{"/spec/quota":{"value":}}}`,
		"a value of another type": `{"v1beta1":{"/spec/quota":{"value":"many","shown":"4e07408562bedb8b"}}}`,
		"metadata":                `{"v1beta1":{"/metadata/name":{"value":"x"},"/metadata/finalizers":{"value":["x"]}}}`,
		"the kind":                `{"v1beta1":{"/kind":{"value":"x"}}}`,
		"no path":                 `{"v1beta1":{"":{"value":{}},"/":{"value":1},"spec":{"value":1}}}`,
		"negative depth":          `{"v1beta1":{"/spec/quota":{"value":1,"new":-5}}}`,
		"too deep":                `{"v1beta1":{"/spec/quota":{"value":1,"new":5}}}`,
		"a visible field":         `{"v1beta1":{"/spec/contact/mail":{"value":"evil","shown":"` + "0" + `"}}}`,
		"its own version":         `{"v1alpha1":{"/spec/mail":{"value":"evil"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			u := object(t, "v1alpha1", `{"spec":{"mail":"a@b"}}`)
			u.SetAnnotations(map[string]string{conversion.Annotation: annotation})
			got := convert(t, u, "v1beta1")
			if s := spec(got); s != `{"contact":{"mail":"a@b"},"plan":"free","quota":3}` || got.GetName() != "web" ||
				got.GetKind() != "Team" || got.GetFinalizers() != nil || got.GetAnnotations() != nil {
				t.Errorf("the result is %v", got.Object)
			}
		})
	}
}

// A forged value must not change what the other version shows, even if its digest is right.
func TestForgedValueOfVisibleField(t *testing.T) {
	u := object(t, "v1alpha1", `{"spec":{"mail":"a@b","owner":"ann"}}`)
	beta := object(t, "v1beta1", `{"spec":{"plan":"free","quota":3,"owners":["ann","bob"],"contact":{"mail":"a@b"}}}`)
	alpha := convert(t, beta, "v1alpha1")
	text := alpha.GetAnnotations()[conversion.Annotation]
	u.SetAnnotations(map[string]string{conversion.Annotation: strings.Replace(text, `["ann","bob"]`, `["eve","bob"]`, 1)})
	if got := spec(convert(t, u, "v1beta1")); !strings.Contains(got, `"owners":["ann"]`) {
		t.Errorf("the spec is %s", got)
	}
}

// One object must not keep the webhook busy: the number of conversions does not depend on the number of forged values.
func TestForgedAnnotationWithManyValues(t *testing.T) {
	calls := 0
	k := &conversion.Kind{
		GroupKind: schema.GroupKind{Group: "example.com", Kind: "Team"}, Hub: "v1beta1",
		Versions: []conversion.Version{{Name: "v1alpha1", Lenses: []conversion.Lens{
			conversion.Split("spec.size", []string{"spec.sizeGi"},
				func(n int64) ([]any, error) { calls++; return []any{n}, nil },
				func(v []any) (int64, error) { calls++; n, _ := v[0].(int64); return n, nil }),
		}}},
	}
	u := object(t, "v1alpha1", `{"spec":{"size":1}}`)
	forged := map[string]any{}
	for i := range 1000 {
		forged[fmt.Sprintf("/spec/x%d", i)] = map[string]any{"value": "visible in both versions"}
	}
	data, err := json.Marshal(map[string]any{"v1beta1": forged})
	if err != nil {
		t.Fatal(err)
	}
	u.SetAnnotations(map[string]string{conversion.Annotation: string(data)})
	converted, err := k.Convert(u, "v1beta1")
	if err != nil || spec(converted) != `{"sizeGi":1}` {
		t.Errorf("%v, %s", err, spec(converted))
	}
	if calls > 50 {
		t.Errorf("%d calls", calls)
	}
}

func TestConversionErrors(t *testing.T) {
	for name, c := range map[string]struct{ version, content, to, want string }{
		"a function fails": {
			"v1alpha1", `{"spec":{"size":"big"}}`, "v1beta1",
			`converting v1alpha1 Team shop/web to v1beta1: spec.size: "big" is no size such as 10Gi`,
		},
		"a value without a counterpart": {
			"v1beta1", `{"spec":{"class":"xxl"}}`, "v1alpha1",
			`converting v1beta1 Team shop/web to v1alpha1: spec.class: value xxl has no counterpart in the other version`,
		},
		"in a list": {
			"v1alpha1", `{"spec":{"members":[{"name":"ann"},{"role":"boss"}]}}`, "v1beta1",
			`converting v1alpha1 Team shop/web to v1beta1: spec.members[1].role: value boss has no counterpart in the other version`,
		},
		"a wrong type": {
			"v1beta1", `{"spec":{"sizeGi":"7"}}`, "v1alpha1",
			`converting v1beta1 Team shop/web to v1alpha1: spec.sizeGi: it is a string, not a int64`,
		},
		"an unknown version": {
			"v1alpha1", `{}`, "v2", `converting v1alpha1 Team shop/web to v2: version "v2" is not one of [v1alpha1 v1alpha2 v1beta1]`,
		},
		"too much to keep": {
			"v1alpha1", `{"spec":{"color":"` + strings.Repeat("x", 256<<10) + `"}}`, "v1beta1",
			`converting v1alpha1 Team shop/web to v1beta1: what this version cannot express of [v1alpha1] needs annotations of ` +
				`262209 bytes, and the limit of the API server is 262144`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := team().Convert(object(t, c.version, c.content), c.to)
			if err == nil || err.Error() != c.want {
				t.Errorf("the error is %v, not %s", err, c.want)
			}
		})
	}
}

func TestInvalidDeclarations(t *testing.T) {
	gk := schema.GroupKind{Group: "example.com", Kind: "Team"}
	lenses := func(l ...conversion.Lens) *conversion.Kind {
		return &conversion.Kind{GroupKind: gk, Hub: "v1", Versions: []conversion.Version{{Name: "v1alpha1", Lenses: l}}}
	}
	versions := func(v ...conversion.Version) *conversion.Kind {
		return &conversion.Kind{GroupKind: gk, Hub: "v1", Versions: v}
	}
	only := conversion.HubOnly("spec.a")
	for name, c := range map[string]struct {
		kind *conversion.Kind
		want string
	}{
		"empty":        {&conversion.Kind{}, "field Hub is missing"},
		"no version":   {versions(), "names no version beside the hub"},
		"bad version":  {versions(conversion.Version{Name: "V 1"}), "field Name"},
		"two versions": {versions(conversion.Version{Name: "v2"}, conversion.Version{Name: "v2"}), "version v2 is declared twice"},
		"metadata":     {lenses(conversion.Rename("metadata.name", "spec.name")), "must not change metadata"},
		"bad path":     {lenses(conversion.SpokeOnly("spec..x")), `path "spec..x": "" is no name of a field`},
		"same path":    {lenses(conversion.Rename("spec.b", "spec.a"), only), "is in another lens"},
		"no pairs":     {lenses(conversion.Values("spec.a", "spec.b")), "there are no pairs"},
		"no function":  {lenses(conversion.Split[string]("spec.a", []string{"spec.b"}, nil, nil)), "a function is missing"},
		"two defaults": {lenses(conversion.HubOnly("spec.a", 1, 2)), "give one or none"},
		"not alone":    {lenses(conversion.Functions(alpha2ToHub, hubToAlpha2), only), "must be the only lens"},
		"nested": {
			lenses(conversion.Each("spec.a", "spec.a", conversion.Rename("b.", "c"))), `Each(spec.a, spec.a): Rename(b., c)`,
		},
		"useless pair": {
			lenses(conversion.Values("spec.a", "spec.a", pair("a", "b"), pair("c", "d"), pair("a", "d"))), "has no effect",
		},
		"bad type":      {versions(conversion.Version{Name: "v1", Type: "x"}), "give a pointer"},
		"lenses of hub": {versions(conversion.Version{Name: "v1", Lenses: []conversion.Lens{only}}), "the hub has lenses"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.kind.Validate()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, not %s", err, c.want)
			}
		})
	}
}

func pair(spoke, hub any) conversion.Pair { return conversion.Pair{Spoke: spoke, Hub: hub} }

func TestOneSided(t *testing.T) {
	k := team()
	want := map[string][]string{
		"v1alpha1": {"spec.color", "spec.limits.burst", "spec.members[].nick"},
		"v1alpha2": {""},
	}
	for version, paths := range want {
		if got := k.OneSided(version); !slices.Equal(got, paths) {
			t.Errorf("%s: %q", version, got)
		}
	}
}
