// Package metacontroller runs the hooks of a CompositeController of Metacontroller on the engine of package sdk, without a
// change of the hooks.
//
// The manifest of the CompositeController is the declaration of the operator. Requests and responses of its sync, finalize
// and customize hooks are translated to those of package function: a [Transport] is one. Children gain what the engine does
// for all operators: drift is repaired, a child of another controller is never written, children are pruned by UID, and the
// parent has the conditions Ready, Reconciling and Stalled.
//
// What differs from Metacontroller: a child is ready according to the engine, unless its update strategy has status checks;
// a condition Ready, Reconciling or Stalled in the status of a response is left to the engine; revisionHistory is not
// supported, so that a rolling update is always one of the newest revision.
package metacontroller

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Controller is the manifest of a CompositeController: the parts that are used.
type Controller struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ControllerSpec `json:"spec"`
}

// ControllerSpec is the spec of a CompositeController.
type ControllerSpec struct {
	ParentResource      ParentResource  `json:"parentResource"`
	ChildResources      []ChildResource `json:"childResources,omitempty"`
	Hooks               Hooks           `json:"hooks"`
	GenerateSelector    bool            `json:"generateSelector,omitempty"`
	ResyncPeriodSeconds float64         `json:"resyncPeriodSeconds,omitempty"`
}

// Resource names a kind by its plural name.
type Resource struct {
	APIVersion string `json:"apiVersion"`
	Resource   string `json:"resource"`
}

// ParentResource is the kind that is reconciled.
type ParentResource struct {
	Resource        `json:",inline"`
	RevisionHistory *struct{} `json:"revisionHistory,omitempty"`
}

// ChildResource is a kind of children.
type ChildResource struct {
	Resource       `json:",inline"`
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`
}

// UpdateStrategy tells how children that differ are updated.
type UpdateStrategy struct {
	// Method is OnDelete (the default), Recreate, InPlace, RollingRecreate or RollingInPlace.
	Method       string       `json:"method,omitempty"`
	StatusChecks StatusChecks `json:"statusChecks,omitempty"`
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

// IsController reports whether the text of a file is a manifest of Metacontroller.
func IsController(data []byte) bool {
	var t metav1.TypeMeta
	return yaml.Unmarshal(data, &t) == nil && strings.HasPrefix(t.APIVersion, "metacontroller.")
}

// Load reads the manifest in a YAML file. The error names the file and every mistake.
func Load(file string) (*Controller, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest of Metacontroller: %w", err)
	}
	c := &Controller{}
	if err := yaml.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

func (c *Controller) validate() error {
	var errs []error
	if c.Kind != "CompositeController" {
		errs = append(errs, fmt.Errorf("kind %s is not supported: CompositeController is", c.Kind))
	}
	if problems := validation.IsDNS1123Label(c.Name); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("metadata.name %q: %s", c.Name, problems[0]))
	}
	if c.Spec.ParentResource.RevisionHistory != nil {
		errs = append(errs, errors.New("spec.parentResource.revisionHistory is not supported: remove it"))
	}
	for i, r := range c.Spec.ChildResources {
		if !slices.Contains(methods, r.UpdateStrategy.Method) {
			errs = append(errs, fmt.Errorf("spec.childResources[%d].updateStrategy.method is %q: it must be one of %s", i,
				r.UpdateStrategy.Method, strings.Join(methods[1:], ", ")))
		}
	}
	if c.Spec.Hooks.Sync == nil {
		errs = append(errs, errors.New("spec.hooks.sync is missing"))
	}
	for name, h := range map[string]*Hook{
		"sync": c.Spec.Hooks.Sync, "finalize": c.Spec.Hooks.Finalize, "customize": c.Spec.Hooks.Customize,
	} {
		if h == nil {
			continue
		}
		if _, err := h.address(""); err != nil {
			errs = append(errs, fmt.Errorf("spec.hooks.%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
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
