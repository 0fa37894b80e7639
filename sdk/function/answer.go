package function

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// decodeAnswer reads the answer to the request with this ID. Unknown fields are errors: a misspelled option would be ignored
// otherwise.
func decodeAnswer(data []byte, id string) (*Answer, error) {
	answer := &Answer{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(answer); err != nil {
		return nil, fmt.Errorf("it is not an answer of protocol %d: %w", ProtocolVersion, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one JSON value")
	}
	switch {
	case answer.Protocol != ProtocolVersion:
		return nil, fmt.Errorf("it is one of protocol %d, and this engine speaks protocol %d", answer.Protocol, ProtocolVersion)
	case answer.ID != id:
		return nil, fmt.Errorf("its id is %q, and that of the request is %q", answer.ID, id)
	}
	return answer, answer.validate()
}

// validate checks what the Go types do not.
func (a *Answer) validate() error {
	set := 0
	for name, p := range map[string]*Problem{
		"unfinished": a.Unfinished, "wait": a.Wait, "invalid": a.Invalid, "notReady": a.NotReady, "suspended": a.Suspended,
	} {
		if p == nil {
			continue
		}
		if p.Reason == "" || p.Message == "" {
			return fmt.Errorf("%s needs a reason and a message", name)
		}
		if name == "unfinished" || name == "wait" || name == "invalid" {
			set++
		}
	}
	if a.Error != "" {
		set++
	}
	if set > 1 {
		return errors.New("it has more than one of unfinished, wait, invalid and error")
	}
	for _, name := range engineFields {
		if _, ok := a.Status[name]; ok {
			return fmt.Errorf("status.%s is written by the engine", name)
		}
	}
	if err := finite("requeueAfterSeconds", a.RequeueAfterSeconds); err != nil {
		return err
	}
	a.Status, _ = storable(a.Status).(map[string]any)
	for i := range a.Children {
		if err := a.Children[i].validate(); err != nil {
			return fmt.Errorf("children[%d]: %w", i, err)
		}
	}
	return nil
}

func finite(name string, seconds float64) error {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) || seconds < 0 {
		return fmt.Errorf("%s is %v: it must be a number of seconds", name, seconds)
	}
	return nil
}

// immutablePolicies are the values of [Child.OnImmutable] in the order of the engine's.
var immutablePolicies = []string{"Stall", "Recreate", "RecreateOrphan"}

func (c *Child) validate() error {
	o := &c.Object
	switch {
	case o.GetAPIVersion() == "" || o.GetKind() == "" || o.GetName() == "":
		return errors.New("object needs apiVersion, kind and metadata.name")
	case c.OnImmutable != "" && !slices.Contains(immutablePolicies, c.OnImmutable):
		return fmt.Errorf("onImmutable is %q: it must be Stall, Recreate or RecreateOrphan", c.OnImmutable)
	case c.HoldBack != nil && (c.HoldBack.Reason == "" || c.HoldBack.Message == ""):
		return errors.New("holdBack needs a reason and a message")
	}
	return nil
}

// storable returns a JSON value as the API server stores and returns it: without null in maps, and with whole numbers as
// integers. Otherwise the status would differ from the stored one in each reconcile.
func storable(value any) any {
	switch v := value.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, item any) bool { return item == nil })
		for name, item := range v {
			v[name] = storable(item)
		}
	case []any:
		for i, item := range v {
			v[i] = storable(item)
		}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	}
	return value
}

// difference returns the path of the first difference between two JSON values, or "" if they are equal.
func difference(a, b []byte) string {
	var x, y any
	if utiljson.Unmarshal(a, &x) != nil || utiljson.Unmarshal(b, &y) != nil {
		return "their beginning"
	}
	return strings.TrimPrefix(differenceOf(x, y, ""), ".")
}

func differenceOf(x, y any, path string) string {
	switch x := x.(type) {
	case map[string]any:
		y, ok := y.(map[string]any)
		if !ok {
			return path
		}
		names := slices.Sorted(maps.Keys(x))
		for name := range y {
			if _, ok := x[name]; !ok {
				names = append(names, name)
			}
		}
		for _, name := range names {
			if _, ok := x[name]; !ok {
				return path + "." + name
			}
			if at := differenceOf(x[name], y[name], path+"."+name); at != "" {
				return at
			}
		}
		return ""
	case []any:
		y, ok := y.([]any)
		if !ok || len(x) != len(y) {
			return path
		}
		for i := range x {
			if at := differenceOf(x[i], y[i], path+"["+strconv.Itoa(i)+"]"); at != "" {
				return at
			}
		}
		return ""
	}
	if !reflect.DeepEqual(x, y) {
		return path
	}
	return ""
}
