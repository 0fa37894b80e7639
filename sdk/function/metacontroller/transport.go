package metacontroller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/function"
)

// Transport calls the hooks of a controller.
type Transport struct {
	// Controller is the manifest. Required.
	Controller *Controller
	// Parent is the kind of the objects: that of Controller, or one of several of a DecoratorController. Required.
	Parent DecoratedResource
	// Base replaces the scheme and the host of the URLs of the hooks, for example "http://127.0.0.1:8080". Optional.
	Base string
	// MaxAnswer is the largest response in bytes. Zero means function.DefaultMaxAnswer.
	MaxAnswer int
	// Mapper finds the kinds of resources. Required.
	Mapper meta.RESTMapper
}

// Validate implements function.Transport.
func (t *Transport) Validate() error {
	if u, err := url.Parse(t.Base); t.Base != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("the URL of the hooks is %q: it must be http://HOST:PORT or https://HOST:PORT", t.Base)
	}
	return t.Controller.validate()
}

// Connect implements function.Transport.
func (t *Transport) Connect(log logr.Logger) function.Connection {
	c := &connection{Transport: *t, hooks: map[string]function.Connection{}}
	for name, h := range map[string]*Hook{
		syncHook: t.Controller.Spec.Hooks.Sync, finalizeHook: t.Controller.Spec.Hooks.Finalize,
		customizeHook: t.Controller.Spec.Hooks.Customize,
	} {
		if h != nil {
			address, _ := h.address(t.Base) // a mistake is one of Validate
			server := &function.Server{URL: address, Timeout: h.timeout(), MaxAnswer: t.MaxAnswer}
			c.hooks[name] = server.Connect(log)
		}
	}
	return c
}

// Config returns the declaration of the operator.
func (t *Transport) Config() (function.Config, error) {
	c := function.Config{
		Version: 1, Name: t.Controller.Name, Doc: description(t.Controller),
		Finalize: t.Controller.Spec.Hooks.Finalize != nil, AnyReference: true,
		ResyncSeconds: t.Controller.Spec.ResyncPeriodSeconds,
	}
	var err error
	if c.Kind, err = t.kind(t.Parent.Resource); err != nil {
		return c, err
	}
	if t.Controller.isDecorator() {
		c.Name += "-" + t.Parent.Resource.Resource
		c.Decorates = true
		if c.Selects, err = t.Parent.selection(); err != nil {
			return c, err
		}
	}
	for _, r := range t.Controller.children() {
		k, err := t.kind(r.Resource)
		if err != nil {
			return c, err
		}
		c.Owns = append(c.Owns, function.OwnedKind{Kind: k})
	}
	return c, nil
}

// kind returns the kind of a resource.
func (t *Transport) kind(r Resource) (function.Kind, error) {
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	if err != nil {
		return function.Kind{}, err
	}
	gvk, err := t.Mapper.KindFor(gv.WithResource(r.Resource))
	if err != nil {
		return function.Kind{}, fmt.Errorf("finding the kind of resource %s of %s: %w: install its CRD first", r.Resource,
			r.APIVersion, err)
	}
	return function.Kind{APIVersion: r.APIVersion, Kind: gvk.Kind}, nil
}

// isNamespaced reports whether a kind is namespaced. It assumes so for an unknown one.
func (t *Transport) isNamespaced(k function.Kind) bool {
	gvk := schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
	mapping, err := t.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	return err != nil || mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

// The names of the hooks.
const (
	syncHook      = "sync"
	finalizeHook  = "finalize"
	customizeHook = "customize"
)

// connection is the connection to the hooks for one engine.
type connection struct {
	Transport
	hooks map[string]function.Connection
}

// Close implements function.Connection.
func (c *connection) Close() {
	for _, h := range c.hooks {
		h.Close()
	}
}

// objects are objects by kind, as "Pod.v1" or "Deployment.apps/v1", and by name. Objects of another namespace than the
// parent's, or of a cluster-scoped parent, have the name "namespace/name".
type objects map[string]map[string]map[string]any

// syncResponse is the response of the sync and finalize hooks. Attachments, labels and annotations are those of a
// DecoratorController; a label without a value is removed.
type syncResponse struct {
	Status             map[string]any     `json:"status"`
	Children           []map[string]any   `json:"children"`
	Attachments        []map[string]any   `json:"attachments"`
	Labels             map[string]*string `json:"labels"`
	Annotations        map[string]*string `json:"annotations"`
	ResyncAfterSeconds float64            `json:"resyncAfterSeconds"`
	Finalized          bool               `json:"finalized"`
}

// Call translates a request for the hooks, and their responses to an answer.
func (c *connection) Call(ctx context.Context, request []byte) ([]byte, error) {
	var req function.Request
	decoder := json.NewDecoder(bytes.NewReader(request))
	decoder.UseNumber() // hooks get numbers as they are
	if err := decoder.Decode(&req); err != nil {
		return nil, fmt.Errorf("decoding the request: %w", err)
	}
	answer := &function.Answer{Protocol: function.ProtocolVersion, ID: req.ID}
	related, complete, err := c.customize(ctx, &req, answer)
	if err != nil {
		return nil, err
	}
	if !complete { // the engine reads the references first
		return json.Marshal(answer)
	}
	name := syncHook
	if req.Call == function.CallFinalize {
		name = finalizeHook
	}
	children := objects{}
	for _, r := range c.Controller.children() {
		k, err := c.kind(r.Resource)
		if err != nil {
			return nil, &function.CallError{Reason: function.ReasonInvalidAnswer, Message: err.Error()}
		}
		children[key(k)] = map[string]map[string]any{}
	}
	parent := unstructured.Unstructured{Object: req.Object}
	for _, child := range req.Children {
		children.add(child, parent.GetNamespace())
	}
	sync := map[string]any{
		"controller": c.Controller.content(), "related": related, "finalizing": req.Call == function.CallFinalize,
		"parent": req.Object, "children": children,
	}
	if c.Controller.isDecorator() {
		sync["object"] = req.Object
		sync["attachments"] = children
		delete(sync, "parent")
		delete(sync, "children")
	}
	var response syncResponse
	if err := c.call(ctx, name, sync, &response); err != nil {
		return nil, err
	}
	if err := c.translate(&req, &response, answer); err != nil {
		return nil, &function.CallError{Reason: function.ReasonInvalidAnswer, Message: "the response of the " + name +
			" hook: " + err.Error()}
	}
	return json.Marshal(answer)
}

// call calls a hook.
func (c *connection) call(ctx context.Context, name string, request, response any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encoding the request of the %s hook: %w", name, err)
	}
	data, err := c.hooks[name].Call(ctx, body)
	if failure, ok := errors.AsType[*function.CallError](err); ok {
		return &function.CallError{Reason: failure.Reason, Message: "the " + name + " hook: " + failure.Message}
	}
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // a float would change large integers
	if err := decoder.Decode(response); err != nil {
		return &function.CallError{Reason: function.ReasonInvalidAnswer, Message: fmt.Sprintf(
			"the response of the %s hook is not usable: %s", name, err)}
	}
	return nil
}

func key(k function.Kind) string { return k.Kind + "." + k.APIVersion }

func (o objects) add(object map[string]any, home string) {
	u := unstructured.Unstructured{Object: object}
	kind := key(function.Kind{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()})
	if o[kind] == nil {
		o[kind] = map[string]map[string]any{}
	}
	name := u.GetName()
	if u.GetNamespace() != "" && u.GetNamespace() != home {
		name = u.GetNamespace() + "/" + name
	}
	o[kind][name] = object
}

// translate writes the response of a sync or finalize hook into the answer.
func (c *connection) translate(req *function.Request, response *syncResponse, answer *function.Answer) error {
	children := response.Children
	answer.RequeueAfterSeconds = max(0, response.ResyncAfterSeconds)
	if c.Controller.isDecorator() {
		if response.Status != nil {
			return errors.New("it has a status: the status of a decorated object belongs to the controller of its kind")
		}
		children = response.Attachments
		answer.Labels = withValues(response.Labels)
		answer.Annotations = withValues(response.Annotations)
	} else {
		var err error
		if answer.Status, answer.Conditions, err = splitStatus(response.Status); err != nil {
			return err
		}
	}
	if req.Call == function.CallFinalize {
		if response.Finalized {
			return nil // the children are deleted with the object, or because there are none in the answer
		}
		answer.Unfinished = &function.Problem{
			Reason: "Finalizing", Message: "the finalize hook has not finished", AfterSeconds: answer.RequeueAfterSeconds,
		}
	}
	previous := map[string]function.ChildName{} // the last child of each kind that is updated one by one
	for i, o := range children {
		child, err := c.child(req, o, previous)
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", c.Controller.childrenField(), i, err)
		}
		answer.Children = append(answer.Children, child)
	}
	return nil
}

// withValues returns the entries that have a value.
func withValues(entries map[string]*string) map[string]string {
	all := map[string]string{}
	for key, value := range entries {
		if value != nil {
			all[key] = *value
		}
	}
	return all
}

// child returns a desired child with the options of its update strategy.
func (c *connection) child(
	req *function.Request, o map[string]any, previous map[string]function.ChildName,
) (function.Child, error) {
	child := function.Child{Object: unstructured.Unstructured{Object: o}}
	k := function.Kind{APIVersion: child.Object.GetAPIVersion(), Kind: child.Object.GetKind()}
	strategy, err := c.strategy(k)
	if err != nil {
		return child, err
	}
	if c.Controller.Spec.GenerateSelector {
		labels := child.Object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["controller-uid"] = string((&unstructured.Unstructured{Object: req.Object}).GetUID())
		child.Object.SetLabels(labels)
	}
	live := existing(req, &child.Object)
	strategy.set(&child, live)
	if !strings.HasPrefix(strategy.Method, "Rolling") {
		return child, nil
	}
	if before, ok := previous[key(k)]; ok && live != nil { // creations are not held back
		child.After = append(child.After, before)
	}
	previous[key(k)] = function.ChildName{
		APIVersion: k.APIVersion, Kind: k.Kind, Namespace: child.Object.GetNamespace(), Name: child.Object.GetName(),
	}
	return child, nil
}

func (c *connection) strategy(k function.Kind) (UpdateStrategy, error) {
	for _, r := range c.Controller.children() {
		if own, err := c.kind(r.Resource); err == nil && own == k {
			return r.UpdateStrategy, nil
		}
	}
	return UpdateStrategy{}, fmt.Errorf("kind %s is not in spec.%s: add it", k, c.Controller.resourcesField())
}

// existing returns the observed child of that name.
func existing(req *function.Request, o *unstructured.Unstructured) map[string]any {
	home := (&unstructured.Unstructured{Object: req.Object}).GetNamespace()
	for _, child := range req.Children {
		u := unstructured.Unstructured{Object: child}
		sameNamespace := u.GetNamespace() == o.GetNamespace() || o.GetNamespace() == "" && u.GetNamespace() == home
		if u.GroupVersionKind() == o.GroupVersionKind() && u.GetName() == o.GetName() && sameNamespace {
			return child
		}
	}
	return nil
}

// splitStatus returns the fields of a status and its conditions, without those of the engine.
func splitStatus(status map[string]any) (map[string]any, []function.Condition, error) {
	if status == nil {
		return nil, nil, nil
	}
	fields := maps.Clone(status)
	delete(fields, "observedGeneration")
	delete(fields, "conditions")
	items, ok := status["conditions"].([]any)
	if !ok {
		return fields, nil, nil
	}
	conditions := []function.Condition{}
	for i, item := range items {
		var c function.Condition
		data, err := json.Marshal(item)
		if err == nil {
			err = json.Unmarshal(data, &c)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("status.conditions[%d]: %w", i, err)
		}
		if c.Reason == "" {
			c.Reason = c.Type // a condition of Metacontroller may have none
		}
		if !slices.Contains(engineConditions, c.Type) {
			conditions = append(conditions, c)
		}
	}
	return fields, conditions, nil
}

// engineConditions are the types of conditions that the engine writes.
var engineConditions = []string{"Ready", "Reconciling", "Stalled", "Deleting", "Paused", "DryRun", "Contended"}
