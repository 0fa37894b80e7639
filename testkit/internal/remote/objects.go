package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/creachadair/jrpc2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
)

// A reference names an object of a test. An empty namespace is that of the test.
type reference struct {
	Test       string `json:"test"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

func (r reference) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(r.APIVersion)
	u.SetKind(r.Kind)
	u.SetNamespace(r.Namespace)
	u.SetName(r.Name)
	return u
}

// apply applies objects, or those of a file or folder, like kubectl apply --server-side --force-conflicts.
func (s *Server) apply(_ context.Context, p struct {
	Test    string           `json:"test"`
	Objects []map[string]any `json:"objects"`
	Path    string           `json:"path"`
},
) (applied []map[string]any, err error) {
	err = s.on(p.Test, func(t *test) error {
		var objects []*unstructured.Unstructured
		for _, o := range p.Objects {
			objects = append(objects, &unstructured.Unstructured{Object: o})
		}
		if p.Path != "" {
			read, err := scenario.ReadObjects(p.Path)
			if err != nil {
				return err
			}
			objects = append(objects, read...)
		}
		for _, u := range objects {
			t.kit.Apply(u)
			applied = append(applied, u.Object)
		}
		return nil
	})
	return applied, err
}

// read returns the objects of a file or folder.
func (s *Server) read(_ context.Context, p struct {
	Path string `json:"path"`
},
) ([]map[string]any, error) {
	read, err := scenario.ReadObjects(p.Path)
	if err != nil {
		return nil, jrpc2.Errorf(failed, "%v", err)
	}
	objects := make([]map[string]any, 0, len(read))
	for _, u := range read {
		objects = append(objects, u.Object)
	}
	return objects, nil
}

// patch changes an object by a merge patch, or its subresource.
func (s *Server) patch(_ context.Context, p struct {
	reference

	Patch       json.RawMessage `json:"patch"`
	Subresource string          `json:"subresource"`
},
) (patched map[string]any, err error) {
	err = s.on(p.Test, func(t *test) error {
		u := t.locate(p.object())
		patch := client.RawPatch(types.MergePatchType, p.Patch)
		var err error
		if p.Subresource != "" {
			err = t.kit.Client.SubResource(p.Subresource).Patch(t.ctx, u, patch)
		} else {
			err = t.kit.Client.Patch(t.ctx, u, patch)
		}
		patched = u.Object
		return describe("patching", u, err)
	})
	return patched, err
}

func describe(what string, u *unstructured.Unstructured, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %s: %w", what, u.GetKind(), u.GetName(), err)
}

// locate sets the test's namespace on a namespaced object without a namespace.
func (t *test) locate(u *unstructured.Unstructured) *unstructured.Unstructured {
	namespaced, err := t.kit.Client.IsObjectNamespaced(u)
	if err != nil {
		t.Fatalf("finding the scope of %s %s: %v", u.GetAPIVersion(), u.GetKind(), err)
	}
	if namespaced && u.GetNamespace() == "" {
		u.SetNamespace(t.kit.Namespace)
	}
	return u
}

// delete deletes an object, and does not wait until it is gone.
func (s *Server) delete(_ context.Context, p reference) error {
	return s.on(p.Test, func(t *test) error {
		t.kit.Delete(p.object())
		return nil
	})
}

// get returns an object, or null if there is none.
func (s *Server) get(_ context.Context, p reference) (object map[string]any, err error) {
	err = s.on(p.Test, func(t *test) error {
		u := t.locate(p.object())
		err := t.kit.Client.Get(t.ctx, client.ObjectKeyFromObject(u), u)
		if apierrors.IsNotFound(err) {
			return nil
		}
		object = u.Object
		return describe("getting", u, err)
	})
	return object, err
}

// list returns the objects of a kind in the test's namespace, or in another one.
func (s *Server) list(_ context.Context, p struct {
	reference

	Labels map[string]string `json:"labels"`
},
) (objects []map[string]any, err error) {
	objects = []map[string]any{}
	err = s.on(p.Test, func(t *test) error {
		u := t.locate(p.object())
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(p.APIVersion)
		list.SetKind(p.Kind + "List")
		err := t.kit.Client.List(t.ctx, list, client.InNamespace(u.GetNamespace()), client.MatchingLabels(p.Labels))
		for i := range list.Items {
			objects = append(objects, list.Items[i].Object)
		}
		return describe("listing", u, err)
	})
	return objects, err
}

// refused creates an object that the API server must reject, and returns its message.
func (s *Server) refused(_ context.Context, p struct {
	Test   string         `json:"test"`
	Object map[string]any `json:"object"`
},
) (message string, err error) {
	err = s.on(p.Test, func(t *test) error {
		message = t.kit.Refused(&unstructured.Unstructured{Object: p.Object})
		return nil
	})
	return message, err
}

// A check is a condition on an object: one of testkit, or one that the client evaluates.
type check struct {
	// Check is ready, exists, gone, condition, or callback.
	Check string `json:"check"`
	// Type, Status and Reason are those of a condition. The reason may be empty.
	Type   string `json:"type"`
	Status string `json:"status"`
	Reason string `json:"reason"`
	// Name and Callback describe a check of the client.
	Name     string `json:"name"`
	Callback int    `json:"callback"`
}

// A watched object, for eventually and consistently.
type watched struct {
	reference

	Checks  []check `json:"checks"`
	Timeout float64 `json:"timeout"` // in seconds; 0 means that of the test
	During  float64 `json:"during"`  // in seconds, for consistently
	UID     string  `json:"uid"`     // the former object, for gone; may be empty
}

func (s *Server) eventually(ctx context.Context, p watched) (state map[string]any, err error) {
	err = s.on(p.Test, func(t *test) error {
		checks, err := t.checks(ctx, p.Checks)
		if err != nil {
			return err
		}
		if p.Timeout > 0 {
			defer func(former time.Duration) { t.kit.Timeout = former }(t.kit.Timeout)
			t.kit.Timeout = seconds(p.Timeout)
		}
		u := p.object()
		u.SetUID(types.UID(p.UID))
		t.kit.Eventually(u, checks...)
		state = u.Object
		return nil
	})
	return state, err
}

func (s *Server) consistently(ctx context.Context, p watched) error {
	return s.on(p.Test, func(t *test) error {
		checks, err := t.checks(ctx, p.Checks)
		if err == nil {
			t.kit.Consistently(p.object(), seconds(p.During), checks...)
		}
		return err
	})
}

// checks converts the checks of a client.
func (t *test) checks(ctx context.Context, all []check) ([]testkit.Check, error) {
	checks := make([]testkit.Check, 0, len(all))
	for _, c := range all {
		status := metav1.ConditionStatus(c.Status)
		switch c.Check {
		case "ready":
			checks = append(checks, testkit.Ready())
		case "exists":
			checks = append(checks, testkit.Exists())
		case "gone":
			checks = append(checks, testkit.Gone())
		case "condition":
			if c.Reason == "" {
				checks = append(checks, testkit.Condition(c.Type, status))
			} else {
				checks = append(checks, testkit.Reason(c.Type, status, c.Reason))
			}
		case "callback":
			checks = append(checks, testkit.Check{Name: c.Name, Missing: t.callback(ctx, c.Callback)})
		default:
			return nil, jrpc2.Errorf(jrpc2.InvalidParams, "there is no check %q; there are ready, exists, gone, condition and "+
				"callback", c.Check)
		}
	}
	return checks, nil
}

// callback asks the client whether an object passes a check. The client may send requests meanwhile.
func (t *test) callback(ctx context.Context, number int) func(client.Object) string {
	return func(object client.Object) string {
		t.acting.Unlock()
		defer t.acting.Lock()
		answer, err := jrpc2.ServerFromContext(ctx).Callback(ctx, "check", map[string]any{"callback": number, "object": object})
		var missing string
		if err == nil {
			err = answer.UnmarshalResult(&missing)
		}
		if err != nil {
			t.Fatalf("asking the client for a check: %v", err)
		}
		return missing
	}
}

// states returns each stored state of an object since the begin of the test, the oldest first. A deleted object is null.
func (s *Server) states(_ context.Context, p reference) (states []map[string]any, err error) {
	states = []map[string]any{}
	err = s.on(p.Test, func(t *test) error {
		for _, u := range t.kit.States(t.locate(p.object())) {
			if u == nil {
				states = append(states, nil)
				continue
			}
			if u.GetAPIVersion() != p.APIVersion {
				return jrpc2.Errorf(jrpc2.InvalidParams, "the states of %s %s were recorded in %s, not in %s: "+
					"name the object with that apiVersion", p.Kind, p.Name, u.GetAPIVersion(), p.APIVersion)
			}
			states = append(states, u.Object)
		}
		return nil
	})
	return states, err
}
