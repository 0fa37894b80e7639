package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/webhookconfig"
)

// The flags of a webhook server, as in package sdk/webhook.
const (
	webhookFlag = "webhook-bind-address"
	serviceFlag = "webhook-service"
)

// webhookTimeout bounds the time until the API server can call the webhooks of a started operator.
const webhookTimeout = time.Minute

// webhookFlags adds the flags of the webhook server to those of a program in a namespace, and returns its address. It is ""
// if the project has no webhooks.
func (p *Project) webhookFlags(flags map[string]string, namespace string) (address string, err error) {
	services := webhookconfig.Services(p.Objects)
	if len(services) == 0 {
		return "", nil
	}
	if address, err = freeAddress(); err != nil {
		return "", err
	}
	flags[webhookFlag] = address
	flags[serviceFlag] = namespace + "/" + services[0].Service.Name
	return address, nil
}

// checkWebhooks returns an error if the API server cannot call the project's webhooks.
func (s *Sandbox) checkWebhooks(p *Project) error {
	for _, use := range webhookconfig.Services(p.Objects) {
		if s.opts.Existing != nil {
			return &ProjectError{Dir: p.Dir, Err: fmt.Errorf("its %s has webhooks, and the cluster of context %s cannot call "+
				"processes of this machine: leave --context out, or deploy the operator there", use.Object, s.opts.Existing.Context)}
		}
		isService := func(u *unstructured.Unstructured) bool {
			return u.GetKind() == "Service" && client.ObjectKeyFromObject(u) == use.Service
		}
		if !slices.ContainsFunc(p.Objects, isService) {
			return &ProjectError{Dir: p.Dir, Err: fmt.Errorf("its %s calls Service %s, which its config does not have: "+
				"add the Service, or correct clientConfig.service", use.Object, use.Service)}
		}
	}
	return nil
}

// registerServices makes the API server call the process at an address for the Services of the project's webhooks.
func (s *Sandbox) registerServices(ctx context.Context, p *Project, address string) error {
	for _, use := range webhookconfig.Services(p.Objects) {
		service := &unstructured.Unstructured{}
		service.SetAPIVersion("v1")
		service.SetKind("Service")
		service.SetNamespace(use.Service.Namespace)
		service.SetName(use.Service.Name)
		if err := register(ctx, s.client, service, address); err != nil {
			return err
		}
	}
	return nil
}

// register makes the API server call the process at an address for a Service or for the Services of a pod.
func register(ctx context.Context, c client.Client, object client.Object, address string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{cluster.AddressAnnotation: address},
	}})
	if err == nil {
		err = c.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		return fmt.Errorf("registering the process of %s: %w", client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// applySample applies an object again while the webhooks of a starting operator cannot be called.
func (s *Sandbox) applySample(ctx context.Context, u *unstructured.Unstructured) error {
	deadline := time.After(webhookTimeout)
	for wait := readyInterval; ; wait = min(2*wait, time.Second) {
		err := manifest.Apply(ctx, s.client, u)
		if err == nil || !webhookconfig.IsFailedCall(err.Error()) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-deadline:
			return err
		case <-ctx.Done():
			return err
		}
	}
}
