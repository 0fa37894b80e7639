package manifest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the field manager of applied objects.
const FieldOwner = "testkit"

// pollInterval is the polling interval for a new custom resource. It takes 50 to 200 ms to be served.
const pollInterval = 10 * time.Millisecond

// crdKind is the kind whose objects take effect with a delay.
const crdKind = "CustomResourceDefinition"

// Install applies objects in order and returns when the custom resources among them are served and discoverable.
func Install(ctx context.Context, cfg *rest.Config, objects []*unstructured.Unstructured) error {
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	c, err := client.New(cfg, client.Options{HTTPClient: httpClient})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, object := range objects {
		object = object.DeepCopy()
		unstructured.RemoveNestedField(object.Object, "status")
		if err := Apply(ctx, c, object); err != nil {
			return err
		}
	}
	for _, object := range objects {
		if object.GetKind() != crdKind {
			continue
		}
		if err := waitServed(ctx, cfg, httpClient, object); err != nil {
			return err
		}
	}
	return nil
}

// Apply sends one object by server-side apply and overwrites it with the response.
func Apply(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(object.Object, "metadata", "resourceVersion")
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(FieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// waitServed waits until each served version of a custom resource can be discovered and listed.
func waitServed(
	ctx context.Context, cfg *rest.Config, httpClient *http.Client, object *unstructured.Unstructured,
) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
		return fmt.Errorf("reading CustomResourceDefinition %s: %w", object.GetName(), err)
	}
	disc, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return fmt.Errorf("making a discovery client: %w", err)
	}
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		for {
			err := served(ctx, disc, &crd, version.Name)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for %s to be served: %w (%w)", crd.Name, ctx.Err(), err)
			case <-time.After(pollInterval):
			}
		}
	}
	return nil
}

func served(
	ctx context.Context, disc *discovery.DiscoveryClient, crd *apiextensionsv1.CustomResourceDefinition, version string,
) error {
	list, err := disc.ServerResourcesForGroupVersion(crd.Spec.Group + "/" + version)
	if err != nil {
		return fmt.Errorf("asking for the resources of its version %s: %w", version, err)
	}
	for _, resource := range list.APIResources {
		if resource.Name != crd.Spec.Names.Plural {
			continue
		}
		err := disc.RESTClient().Get().
			AbsPath("/apis", crd.Spec.Group, version, crd.Spec.Names.Plural).Param("limit", "1").Do(ctx).Error()
		if err != nil && !apierrors.IsMethodNotSupported(err) {
			return fmt.Errorf("listing: %w", err)
		}
		return nil
	}
	return fmt.Errorf("version %s does not have it yet", version)
}
