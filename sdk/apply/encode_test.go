package apply

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// outer has the shapes of fields in API types.
type outer struct {
	Inlined  `json:",inline"`
	*Pointed `json:",inline"`

	Text     string            `json:"text"` // no omitempty, like many required fields
	Number   int32             `json:"number"`
	Share    float64           `json:"share,omitempty"`
	Flag     bool              `json:"flag"`
	Pointer  *int32            `json:"pointer,omitempty"`
	Struct   embedded          `json:"struct"`
	Nested   *embedded         `json:"nested,omitempty"`
	Map      map[string]string `json:"map,omitempty"`
	List     []embedded        `json:"list,omitempty"`
	Names    []string          `json:"names"`
	Bytes    []byte            `json:"bytes,omitempty"`
	Array    [2]uint8          `json:"array"`
	Quantity resource.Quantity `json:"quantity"`
	Port     intstr.IntOrString
	Time     metav1.Time           `json:"time,omitempty"` //nolint:modernize // as in types of Kubernetes
	Span     metav1.Duration       `json:"span"`
	Raw      *runtime.RawExtension `json:"raw,omitempty"`
	Address  netip.Addr            `json:"address"`
	Hidden   string                `json:"-"`
	private  string
}

type embedded struct {
	Inner string `json:"inner,omitempty"`
}

// Inlined is embedded as TypeMeta is.
type Inlined struct {
	Near string `json:"near,omitempty"`
	Text string `json:"text,omitempty"`
}

// Pointed is embedded by pointer.
type Pointed struct {
	Far string `json:"far,omitempty"`
}

func TestEncodeKeepsWhatWasSet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		in     outer
		want   map[string]any
	}{
		"zero": {
			"a zero value is not intended, with or without omitempty", outer{private: "x", Hidden: "x"}, map[string]any{},
		},
		"scalars": {
			"values other than zero are intended",
			outer{Text: "a", Number: 1, Share: 0.5, Flag: true},
			map[string]any{"text": "a", "number": int64(1), "share": 0.5, "flag": true},
		},
		"pointers": {
			"the target of a pointer is intended, zero or not",
			outer{Pointer: new(int32(0)), Nested: &embedded{}},
			map[string]any{"pointer": int64(0), "nested": map[string]any{}},
		},
		"structs": {
			"a struct is intended if one of its fields is set",
			outer{Struct: embedded{Inner: "x"}},
			map[string]any{"struct": map[string]any{"inner": "x"}},
		},
		"embedded": {
			"fields of embedded structs are fields of the outer struct",
			outer{Inlined: Inlined{Near: "x"}, Pointed: &Pointed{Far: "y"}},
			map[string]any{"near": "x", "far": "y"},
		},
		"shadowed": {
			"the outer one of two fields with one name is used",
			outer{Inlined: Inlined{Near: "x", Text: "y"}, Text: "z"},
			map[string]any{"near": "x", "text": "z"},
		},
		"text": {
			"any text is valid JSON",
			outer{Text: "a\"b\\c\nd\u2028é", Names: []string{"\x00"}},
			map[string]any{"text": "a\"b\\c\nd\u2028é", "names": []any{"\x00"}},
		},
		"maps": {
			"every entry of a map is intended",
			outer{Map: map[string]string{"a": "", "b": "x"}},
			map[string]any{"map": map[string]any{"a": "", "b": "x"}},
		},
		"empty containers": {
			"an empty map or list counts as nil",
			outer{Map: map[string]string{}, Names: []string{}, Bytes: []byte{}},
			map[string]any{},
		},
		"lists": {
			"every item of a list is intended, with its set fields",
			outer{List: []embedded{{}, {Inner: "x"}}, Names: []string{"", "b"}},
			map[string]any{
				"list":  []any{map[string]any{}, map[string]any{"inner": "x"}},
				"names": []any{"", "b"},
			},
		},
		"bytes": {
			"bytes are written in base64, arrays as lists",
			outer{Bytes: []byte("hi"), Array: [2]uint8{1, 2}},
			map[string]any{"bytes": "aGk=", "array": []any{int64(1), int64(2)}},
		},
		"types with their own JSON form": {
			"quantities are canonical, ports are numbers or names",
			outer{
				Quantity: resource.MustParse("0.5"), Port: intstr.FromString("http"),
				Time: metav1.NewTime(time.Unix(0, 0)), Span: metav1.Duration{Duration: time.Minute},
				Raw: &runtime.RawExtension{Raw: []byte(`{"a":1}`)}, Address: netip.MustParseAddr("::1"),
			},
			map[string]any{
				"address":  "::1",
				"quantity": "500m", "Port": "http", "time": "1970-01-01T00:00:00Z", "span": "1m0s",
				"raw": map[string]any{"a": int64(1)},
			},
		},
		"zero port": {
			"the zero value of a type with its own JSON form is not set", outer{Port: intstr.FromInt32(0)}, map[string]any{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := decoded(&c.in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestZeroIsIntended(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		path   string
		want   any // below spec
	}{
		"value":          {"a field without a pointer", "spec.paused", nested(false, "paused")},
		"nil pointer":    {"a pointer that is not set", "spec.replicas", nested(int64(0), "replicas")},
		"below a struct": {"the structs around it are created", "spec.strategy.type", nested("", "strategy", "type")},
		"below a pointer": {
			"the pointers around it too", "spec.selector.matchLabels", nested(map[string]any{}, "selector", "matchLabels"),
		},
		"map": {
			"a map becomes empty", "spec.template.metadata.labels", nested(map[string]any{}, "template", "metadata", "labels"),
		},
		"list": {
			"a list becomes empty", "spec.template.spec.containers", nested([]any{}, "template", "spec", "containers"),
		},
		"struct": {
			"a struct becomes empty", "spec.template.spec.securityContext",
			nested(map[string]any{}, "template", "spec", "securityContext"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := decoded(&appsv1.Deployment{}, map[string]bool{c.path: true})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]any{"spec": c.want}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
	_, err := decoded(&appsv1.Deployment{}, map[string]bool{"spec.replica": true})
	if err == nil || !strings.Contains(err.Error(), `zero value of field "spec.replica": *v1.Deployment has no such field`) {
		t.Errorf("a path with a typo: %v", err)
	}
	set := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}}
	got, err := decoded(set, map[string]bool{"spec.replicas": true})
	if diff := cmp.Diff(map[string]any{"spec": map[string]any{"replicas": int64(3)}}, got); diff != "" || err != nil {
		t.Errorf("a value that is set: %v (-want +got):\n%s", err, diff)
	}
}

// decoded encodes an object and decodes the result.
func decoded(o any, zero map[string]bool) (map[string]any, error) {
	raw, err := encode(o, zero)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	return fields, utiljson.Unmarshal(raw, &fields)
}

// nested returns a value below these names.
func nested(v any, names ...string) any {
	for _, name := range slices.Backward(names) {
		v = map[string]any{name: v}
	}
	return v
}

func TestEncodeUnstructured(t *testing.T) {
	t.Parallel()
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"size": 3, "empty": "", "none": nil, "list": []any{map[string]any{"none": nil, "zero": 0}},
		},
	}}
	got, err := decoded(u, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"spec": map[string]any{
		"size": int64(3), "empty": "", "list": []any{map[string]any{"zero": int64(0)}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("everything but null is intended (-want +got):\n%s", diff)
	}
	got["spec"].(map[string]any)["size"] = "changed"
	if u.Object["spec"].(map[string]any)["size"] != 3 {
		t.Error("the intent shares memory with the object")
	}
}

func TestEncodeRejectsValuesWithoutJSONForm(t *testing.T) {
	t.Parallel()
	type bad struct {
		Channel chan int       `json:"channel,omitempty"`
		Numbers map[int]string `json:"numbers,omitempty"`
		Large   uint64         `json:"large,omitempty"`
		Share   float64        `json:"share,omitempty"`
	}
	for name, in := range map[string]any{
		"channel":        &bad{Channel: make(chan int)},
		"map of numbers": &bad{Numbers: map[int]string{1: "x"}},
		"large":          &bad{Large: math.MaxUint64},
		"not a number":   &bad{Share: math.NaN()},
		"no pointer":     bad{},
	} {
		if got, err := encode(in, nil); err == nil {
			t.Errorf("%s: encoded as %v", name, got)
		}
	}
}

// FuzzEncode checks that the intent is a part of the JSON form of the whole object.
func FuzzEncode(f *testing.F) {
	f.Add("name", "image", int32(1), true)
	f.Add("", "", int32(0), false)
	f.Fuzz(func(t *testing.T, name, image string, replicas int32, paused bool) {
		d := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: strings.ToValidUTF8(name, "")},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Paused: paused,
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Image: strings.ToValidUTF8(image, "")}},
				}},
			},
		}
		got, err := decoded(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
		if err != nil {
			t.Fatal(err)
		}
		if !within(got, whole) {
			t.Errorf("intent %v is not a part of %v", got, whole)
		}
	})
}

func within(part, whole any) bool {
	switch part := part.(type) {
	case map[string]any:
		whole, ok := whole.(map[string]any)
		for k, v := range part {
			if !ok || !within(v, whole[k]) {
				return false
			}
		}
		return ok
	case []any:
		whole, ok := whole.([]any)
		if !ok || len(part) != len(whole) {
			return false
		}
		for i := range part {
			if !within(part[i], whole[i]) {
				return false
			}
		}
		return true
	default:
		return cmp.Equal(part, whole)
	}
}
