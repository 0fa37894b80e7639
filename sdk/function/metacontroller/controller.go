// Package metacontroller runs the hooks of a CompositeController of Metacontroller on the engine of package sdk, without a
// change of the hooks.
//
// The manifest of the CompositeController is the declaration of the operator. Requests and responses of its sync, finalize
// and customize hooks are translated to those of package function: a [Transport] is one. Children gain what the engine does
// for all operators: drift is repaired, a child of another controller is never written, children are pruned by UID, and the
// parent has the conditions Ready, Reconciling and Stalled.
//
// What differs from Metacontroller: a child is ready according to the engine, unless its update strategy has status checks;
// a condition Ready, Reconciling or Stalled in the status of a response is left to the engine; revisionHistory has no
// effect, because a rolling update is carried out by the engine and is always one to the newest revision.
package metacontroller

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Controller is the manifest of a CompositeController or a DecoratorController: the parts that are used.
type Controller struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ControllerSpec `json:"spec"`

	manifest any // all parts, for the requests of the hooks
}

// ControllerSpec is the spec of a controller.
type ControllerSpec struct {
	Hooks               Hooks   `json:"hooks"`
	ResyncPeriodSeconds float64 `json:"resyncPeriodSeconds,omitempty"`

	// Those of a CompositeController.
	ParentResource   Resource        `json:"parentResource,omitzero"`
	ChildResources   []ChildResource `json:"childResources,omitempty"`
	GenerateSelector bool            `json:"generateSelector,omitempty"`

	// Those of a DecoratorController.
	Resources   []DecoratedResource `json:"resources,omitempty"`
	Attachments []ChildResource     `json:"attachments,omitempty"`
}

// DecoratedResource selects the objects of a kind that a DecoratorController decorates. Without a selector it selects all.
type DecoratedResource struct {
	Resource           `json:",inline"`
	LabelSelector      *metav1.LabelSelector `json:"labelSelector,omitempty"`
	AnnotationSelector *AnnotationSelector   `json:"annotationSelector,omitempty"`
}

// AnnotationSelector selects objects by annotation, like a label selector.
type AnnotationSelector struct {
	MatchAnnotations map[string]string                 `json:"matchAnnotations,omitempty"`
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// selection returns the function that reports whether an object with these labels and annotations is selected.
func (r DecoratedResource) selection() (func(byLabel, byAnnotation map[string]string) bool, error) {
	labeled, annotated := labels.Everything(), labels.Everything()
	var err error
	if r.LabelSelector != nil {
		if labeled, err = metav1.LabelSelectorAsSelector(r.LabelSelector); err != nil {
			return nil, fmt.Errorf("labelSelector: %w", err)
		}
	}
	if s := r.AnnotationSelector; s != nil {
		// Values of matchAnnotations are compared below: those of a label selector are limited.
		match := &metav1.LabelSelector{MatchExpressions: s.MatchExpressions}
		if annotated, err = metav1.LabelSelectorAsSelector(match); err != nil {
			return nil, fmt.Errorf("annotationSelector: %w", err)
		}
	}
	return func(byLabel, byAnnotation map[string]string) bool {
		if r.AnnotationSelector != nil {
			for key, value := range r.AnnotationSelector.MatchAnnotations {
				if actual, ok := byAnnotation[key]; !ok || actual != value {
					return false
				}
			}
		}
		return labeled.Matches(labels.Set(byLabel)) && annotated.Matches(labels.Set(byAnnotation))
	}, nil
}

func (c *Controller) isDecorator() bool { return c.Kind == "DecoratorController" }

// parents returns the kinds of the objects of the controller.
func (c *Controller) parents() []DecoratedResource {
	if c.isDecorator() {
		return c.Spec.Resources
	}
	return []DecoratedResource{{Resource: c.Spec.ParentResource}}
}

// children returns the kinds of children or attachments.
func (c *Controller) children() []ChildResource {
	if c.isDecorator() {
		return c.Spec.Attachments
	}
	return c.Spec.ChildResources
}

// childrenField returns the field of a response that has the children.
func (c *Controller) childrenField() string {
	if c.isDecorator() {
		return "attachments"
	}
	return "children"
}

// resourcesField returns the field of the spec that lists the kinds of children.
func (c *Controller) resourcesField() string {
	if c.isDecorator() {
		return "attachments"
	}
	return "childResources"
}

// Resource names a kind by its plural name.
type Resource struct {
	APIVersion string `json:"apiVersion"`
	Resource   string `json:"resource"`
}

// ChildResource is a kind of children.
type ChildResource struct {
	Resource       `json:",inline"`
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitzero"`
}

// UpdateStrategy tells how children that differ are updated.
type UpdateStrategy struct {
	// Method is OnDelete (the default), Recreate, InPlace, RollingRecreate or RollingInPlace.
	Method       string       `json:"method,omitempty"`
	StatusChecks StatusChecks `json:"statusChecks,omitzero"`
}

// StatusChecks are conditions that a child has before the next one is updated.
type StatusChecks struct {
	Conditions []StatusCheck `json:"conditions,omitempty"`
}

// StatusCheck is a condition of a child. What is not set is not checked.
type StatusCheck struct {
	Type   string  `json:"type"`
	Status *string `json:"status,omitempty"`
	Reason *string `json:"reason,omitempty"`
}

// Hooks are the hooks of a controller.
type Hooks struct {
	Sync      *Hook `json:"sync,omitempty"`
	Finalize  *Hook `json:"finalize,omitempty"`
	Customize *Hook `json:"customize,omitempty"`
}

// Hook is a webhook.
type Hook struct {
	Webhook *Webhook `json:"webhook,omitempty"`
}

// Webhook is the address of a hook.
type Webhook struct {
	URL     string           `json:"url,omitempty"`
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	Path    string           `json:"path,omitempty"`
	Service *struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Port      int    `json:"port,omitempty"`
		Protocol  string `json:"protocol,omitempty"`
	} `json:"service,omitempty"`
}

// methods are the values of [UpdateStrategy.Method].
var methods = []string{"", "OnDelete", "Recreate", "InPlace", "RollingRecreate", "RollingInPlace"}

// Load reads the manifests of controllers in a YAML file, and ignores those of other kinds, such as a Deployment of the
// hooks. A file without a controller has none. The error names the file and every mistake.
func Load(file string) ([]*Controller, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the user names the file.
	if err != nil {
		return nil, fmt.Errorf("reading the manifest of Metacontroller: %w", err)
	}
	controllers, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return controllers, nil
}

func parse(data []byte) ([]*Controller, error) {
	var controllers []*Controller
	var errs []error
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return controllers, errors.Join(errs...)
		}
		if err != nil {
			return nil, err
		}
		var t metav1.TypeMeta
		if yaml.Unmarshal(document, &t) != nil || !strings.HasPrefix(t.APIVersion, "metacontroller.") {
			continue
		}
		c := &Controller{}
		if err := errors.Join(yaml.Unmarshal(document, c), yaml.Unmarshal(document, &c.manifest)); err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: "))
		}
		if err := c.validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", c.Kind, c.Name, err))
		}
		controllers = append(controllers, c)
	}
}

// content returns the controller for the request of a hook.
func (c *Controller) content() any {
	if c.manifest == nil {
		return c
	}
	return c.manifest
}

func (c *Controller) validate() error {
	if c.Kind != "CompositeController" && c.Kind != "DecoratorController" {
		return fmt.Errorf("kind %s is not supported: CompositeController and DecoratorController are", c.Kind)
	}
	var errs []error
	if problems := validation.IsDNS1123Label(c.Name); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("metadata.name %q: %s", c.Name, problems[0]))
	}
	errs = append(errs, c.validateParents()...)
	for i, r := range c.children() {
		field := fmt.Sprintf("spec.%s[%d]", c.resourcesField(), i)
		errs = append(errs, r.validate(field))
		if !slices.Contains(methods, r.UpdateStrategy.Method) {
			errs = append(errs, fmt.Errorf("%s.updateStrategy.method is %q: it must be one of %s", field,
				r.UpdateStrategy.Method, strings.Join(methods[1:], ", ")))
		}
	}
	if c.Spec.Hooks.Sync == nil {
		errs = append(errs, errors.New("spec.hooks.sync is missing"))
	}
	for _, h := range []struct {
		name string
		*Hook
	}{{"sync", c.Spec.Hooks.Sync}, {"finalize", c.Spec.Hooks.Finalize}, {"customize", c.Spec.Hooks.Customize}} {
		if h.Hook == nil {
			continue
		}
		if _, err := h.address(""); err != nil {
			errs = append(errs, fmt.Errorf("spec.hooks.%s: %w", h.name, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) validateParents() []error {
	if !c.isDecorator() {
		return []error{c.Spec.ParentResource.validate("spec.parentResource")}
	}
	if len(c.Spec.Resources) == 0 {
		return []error{errors.New("spec.resources is empty: name the kinds to decorate")}
	}
	var errs []error
	names := map[string]bool{}
	for i, r := range c.Spec.Resources {
		field := fmt.Sprintf("spec.resources[%d]", i)
		errs = append(errs, r.validate(field))
		if _, err := r.selection(); err != nil {
			errs = append(errs, fmt.Errorf("%s.%w", field, err))
		}
		if names[r.Resource.Resource] {
			errs = append(errs, fmt.Errorf("%s: resource %s is listed twice: use two controllers", field, r.Resource.Resource))
		}
		names[r.Resource.Resource] = true
	}
	return errs
}

func (r Resource) validate(field string) error {
	if r.APIVersion == "" || r.Resource == "" {
		return fmt.Errorf("%s: apiVersion %q and resource %q do not name a resource, such as apps/v1 and deployments", field,
			r.APIVersion, r.Resource)
	}
	return nil
}

// address returns the URL of a hook. A base replaces its scheme and host.
func (h *Hook) address(base string) (string, error) {
	if h.Webhook == nil {
		return "", errors.New("webhook is missing: hooks are webhooks")
	}
	text := h.Webhook.URL
	if s := h.Webhook.Service; text == "" && s != nil {
		scheme, port := "http", 80
		if s.Protocol != "" {
			scheme = s.Protocol
		}
		if s.Port != 0 {
			port = s.Port
		}
		text = fmt.Sprintf("%s://%s.%s:%d/%s", scheme, s.Name, s.Namespace, port, strings.TrimPrefix(h.Webhook.Path, "/"))
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("webhook has the URL %q: give url, or service and path", text)
	}
	if base == "" {
		return text, nil
	}
	b, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("the URL of the function: %w", err)
	}
	u.Scheme = b.Scheme
	u.Host = b.Host
	return u.String(), nil
}

// timeout returns the timeout of a hook; zero means the default.
func (h *Hook) timeout() time.Duration {
	if h.Webhook.Timeout == nil {
		return 0
	}
	return h.Webhook.Timeout.Duration
}
