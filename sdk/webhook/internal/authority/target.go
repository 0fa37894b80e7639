package authority

import (
	"context"
	"encoding/base64"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Target is an object with the address and the authority of a webhook.
type Target struct {
	Kind schema.GroupVersionKind
	Name string
}

// The kinds of targets.
var (
	ValidatingConfiguration = schema.GroupVersionKind{
		Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration",
	}
	MutatingConfiguration = schema.GroupVersionKind{
		Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration",
	}
	CustomResourceDefinition = schema.GroupVersionKind{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition",
	}
)

// inject writes the certificates into a target, if it has others.
func (a *Authority) inject(ctx context.Context, target Target, certificates []byte) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(target.Kind)
	if err := a.Client.Get(ctx, client.ObjectKey{Name: target.Name}, object); err != nil {
		return fmt.Errorf("reading %s %s: %w", target.Kind.Kind, target.Name, err)
	}
	encoded := base64.StdEncoding.EncodeToString(certificates)
	fields, differs, err := injection(object, encoded)
	if err != nil || !differs {
		return err
	}
	// The UID prevents that the object is created if it is deleted meanwhile.
	patch := &unstructured.Unstructured{Object: fields}
	patch.SetGroupVersionKind(target.Kind)
	patch.SetName(target.Name)
	patch.SetUID(object.GetUID())
	if err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch),
		client.FieldOwner(a.Name), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing the certificate authority into %s %s: %w", target.Kind.Kind, target.Name, err)
	}
	a.Log.Info("Certificate authority written", "kind", target.Kind.Kind, "name", target.Name)
	return nil
}

// injection returns the fields with the certificates, and whether the object differs from them.
func injection(object *unstructured.Unstructured, encoded string) (fields map[string]any, differs bool, err error) {
	if object.GetKind() == CustomResourceDefinition.Kind {
		path := []string{"spec", "conversion", "webhook", "clientConfig"}
		config, found, err := unstructured.NestedMap(object.Object, path...)
		if err != nil || !found {
			return nil, false, fmt.Errorf("CustomResourceDefinition %s has no conversion webhook: set spec.conversion",
				object.GetName())
		}
		fields = map[string]any{}
		err = unstructured.SetNestedField(fields, encoded, append(path, "caBundle")...)
		return fields, config["caBundle"] != encoded, err
	}
	webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil || len(webhooks) == 0 {
		return nil, false, fmt.Errorf("%s %s has no webhooks", object.GetKind(), object.GetName())
	}
	var all []any
	for _, item := range webhooks {
		webhook, _ := item.(map[string]any)
		if current, _, _ := unstructured.NestedString(webhook, "clientConfig", "caBundle"); current != encoded {
			differs = true
		}
		all = append(all, map[string]any{"name": webhook["name"], "clientConfig": map[string]any{"caBundle": encoded}})
	}
	return map[string]any{"webhooks": all}, differs, nil
}

// watch returns a channel that has an element after a change of the Secret or of a target. Each watch is limited to the name
// of its object, so that permissions for that name suffice.
func (a *Authority) watch(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{}, 1)
	secret := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	a.watchOne(ctx, secret, a.Secret, changed)
	for _, target := range a.Targets {
		a.watchOne(ctx, target.Kind, client.ObjectKey{Name: target.Name}, changed)
	}
	return changed
}

func (a *Authority) watchOne(
	ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey, changed chan<- struct{},
) {
	list := func() *metav1.PartialObjectMetadataList {
		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return l
	}
	options := func(o metav1.ListOptions) []client.ListOption {
		return []client.ListOption{
			&client.ListOptions{Raw: &o}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name},
		}
	}
	notify := func(any) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	_, informer := toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				l := list()
				return l, a.Client.List(ctx, l, options(o)...)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return a.Client.Watch(ctx, list(), options(o)...)
			},
		},
		ObjectType: &metav1.PartialObjectMetadata{},
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(_, object any) { notify(object) }, DeleteFunc: notify,
		},
	})
	go informer.RunWithContext(ctx)
}
