package function

import (
	"encoding/json"
	"testing"
)

// A decorated object keeps all fields, and its status has no field that the engine would store.
func TestDecorated(t *testing.T) {
	t.Parallel()
	const text = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"x":1},"status":{"phase":"Running"}}`
	o := &Decorated{}
	if err := json.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	o.CommonStatus().ObservedGeneration = 7
	c, ok := o.DeepCopyObject().(*Decorated)
	data, err := json.Marshal(c)
	if !ok || err != nil || string(data) != text {
		t.Errorf("the object is encoded as %s, %v; it must be %s", data, err, text)
	}
	c.Fields["spec"].(map[string]any)["x"] = 2
	if again, err := json.Marshal(o); err != nil || string(again) != text {
		t.Errorf("the copy shares fields with its original, which is %s now, %v", again, err)
	}
}

func TestBuiltInKind(t *testing.T) {
	t.Parallel()
	config := Config{Version: 1, Name: "a", Kind: Kind{"apps/v1", "Deployment"}}
	op := &Operator{Config: config, Function: &Process{Command: []string{"x"}}}
	if err := op.validate(); err == nil {
		t.Error("a function must not reconcile a built-in kind")
	}
	if op.Config.Decorates = true; op.validate() != nil {
		t.Error("a built-in kind can be decorated")
	}
}
