package versions_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/versions"
)

// source generates sources of rules with values that users write, and mistakes.
type source struct{ *rand.Rand }

func pick[T any](s source, all ...T) T { return all[s.IntN(len(all))] }

func many[T any](s source, most int, item func() T) []any {
	all := []any{}
	for range s.IntN(most + 1) {
		all = append(all, item())
	}
	return all
}

// text returns a text that is a label selector.
func (s source) text() string {
	var parts []string
	for range 1 + s.IntN(4) {
		key, value := pick(s, "a", "b", "c/d"), pick(s, "1", "2", "x", "")
		parts = append(parts, pick(s, key, "!"+key, key+"="+value, key+"=="+value, key+" != "+value, key+" in (1,"+value+")",
			key+" notin (x,"+value+")", key+">1", key+" < 2"))
	}
	return strings.Join(parts, pick(s, ",", ", "))
}

func (s source) name() string {
	return pick(s, "a", "b", "team-1", "5", "Not-a-Name", "", "namespace: 5")
}

// v1 returns a rule of v1.
func (s source) v1() map[string]any {
	o := map[string]any{"ruleType": pick(s, "configmap", "secret", "ConfigMap", "Secret")}
	o["selector"] = pick(s, any(s.text()), any(s.text()), any(map[string]any{"a": pick(s, "1", "no value")}),
		any(map[string]any{}), any("a in"), any(""), any(int64(5)), any(true), any([]any{"a"}),
		any(map[string]any{"a": int64(1)}), any(`{"a":1}`))
	if s.IntN(2) == 0 {
		o["namespace"] = pick(s, any(s.name()), any(many(s, 3, s.name)), any(many(s, 70, s.name)), any(int64(5)), any(false),
			any([]any{"a", int64(1)}), any(map[string]any{"a": "b"}))
	}
	if s.IntN(2) == 0 {
		o["namespaces"] = pick(s, []any{}, []any{"b"}, []any{"x", "a"})
	}
	return o
}

// v2 returns a rule of v2.
func (s source) v2() map[string]any {
	selector := map[string]any{}
	if s.IntN(2) == 0 {
		selector["matchLabels"] = pick(s, map[string]any{}, map[string]any{"a": "1", "b": pick(s, "2", "no value")})
	}
	if s.IntN(3) > 0 {
		selector["matchExpressions"] = many(s, 3, func() any {
			operator := pick(s, "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Malformed", "Like")
			e := map[string]any{"key": pick(s, "a", "b", "c/d", "5", `"a in"`, "no key"), "operator": operator}
			if operator == "In" || operator == "NotIn" || operator == "Gt" {
				e["values"] = pick(s, []any{"2", "1"}, []any{"1"}, []any{"x", "x"}, []any{"7"})
			}
			return e
		})
	}
	o := map[string]any{"kind": pick(s, "ConfigMap", "Secret"), "selector": selector}
	if s.IntN(2) == 0 {
		o["namespaces"] = pick(s, []any{}, []any{s.name()}, []any{"b", "a"}, []any{"namespace: 5", "a"},
			[]any{"a", "namespace: 5"})
	}
	return map[string]any{"spec": map[string]any{"source": o}}
}

// Sources that users write are the same after a way through the other version, on which another field has changed.
func TestGeneratedSources(t *testing.T) {
	t.Parallel()
	cases := 100_000
	if testing.Short() {
		cases /= 50
	}
	s := source{rand.New(rand.NewPCG(1, 1))}
	for i := range cases {
		for _, object := range []map[string]any{s.v1(), s.v2()} {
			from, to := "v1", "v2"
			if object["spec"] != nil {
				from, to = to, from
			}
			u := &unstructured.Unstructured{Object: object}
			u.SetAPIVersion("flant.com/" + from)
			u.SetKind("CopyratorRule")
			u.SetName("a")
			other := convert(t, u, to)
			path := map[string][]string{"v1": {"suspend"}, "v2": {"spec", "suspend"}}
			if err := unstructured.SetNestedField(other.Object, true, path[to]...); err != nil {
				t.Fatal(err)
			}
			back := convert(t, other, from)
			if err := unstructured.SetNestedField(u.Object, true, path[from]...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(u.Object, back.Object); diff != "" {
				t.Fatalf("case %d from %s (-want +got):\n%s\nin %s: %v", i, from, diff, to, other.Object)
			}
		}
	}
}

// A selector selects the same in both versions.
func TestSelectorsAreEqual(t *testing.T) {
	t.Parallel()
	s := source{rand.New(rand.NewPCG(1, 2))}
	for range 2000 {
		text := s.text()
		want, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		hub, err := versions.ToHub(&v1.CopyratorRule{Rule: v1.Rule{RuleType: "secret", Selector: v1.Selector{Text: text}}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := versions.ParseSelector(&hub.Spec.Source.Selector)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for range 20 {
			set := labels.Set{}
			for _, key := range []string{"a", "b", "c/d"} {
				if value := pick(s, "absent", "1", "2", "3", "x", ""); value != "absent" {
					set[key] = value
				}
			}
			if want.Matches(set) != got.Matches(set) {
				t.Errorf("%s selects %v in v1: %v, and in v2: %v", text, set, want.Matches(set), got.Matches(set))
			}
		}
	}
}
