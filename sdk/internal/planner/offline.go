package planner

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
	"github.com/homeostat-dev/homeostat/sdk/internal/reference"
)

// Offline plans a reconcile of the object with live as all existing objects; see sdk.Dry.
func Offline(ctx context.Context, op *desired.Definition, o desired.Object, live ...client.Object) *Plan {
	o = object.Copy(o)
	if o.GetUID() == "" { // children are identified by it
		o.SetUID("dry-run")
	}
	k, err := offlineKinds(op)
	if err != nil {
		return &Plan{Object: o, Err: err}
	}
	o.GetObjectKind().SetGroupVersionKind(k.Primary)
	seen, all := observed.NewSnapshot(k), map[object.ID]client.Object{}
	for _, x := range live {
		gvk, err := apiutil.GVKForObject(x, k.Scheme)
		if err != nil {
			return &Plan{Object: o, Err: fmt.Errorf("finding the kind of %T: %w", x, err)}
		}
		x = object.Copy(x)
		if x.GetNamespace() == "" && k.Namespaced(gvk) {
			x.SetNamespace(o.GetNamespace())
		}
		id := object.ID{GVK: gvk, Key: client.ObjectKeyFromObject(x)}
		all[id] = x
		if slices.Contains(k.Observed, gvk) {
			seen.Observed[gvk] = append(seen.Observed[gvk], object.Copy(x))
		}
		if of := metav1.GetControllerOf(x); slices.Contains(k.Owned, gvk) && (of == nil || of.UID == o.GetUID()) {
			child := object.Copy(x)
			seen.Add(gvk, child, assumeOwnership(k, child, o), o.GetUID())
		}
	}
	d := Planner{op: op, kinds: k, finalizes: true, read: func(id object.ID, _ client.Object) (client.Object, error) {
		delete(seen.Children, id) // a reference is not a child
		return all[id], nil
	}}
	d.list = func(t reference.Target, like client.Object) ([]client.Object, error) {
		found, err := t.SelectFrom(all, like)
		for _, o := range found {
			delete(seen.Children, object.ID{GVK: t.GVK, Key: client.ObjectKeyFromObject(o)})
		}
		return found, err
	}
	return d.plan(ctx, o, seen)
}

// assumeOwnership changes x so that it counts as a child of o.
func assumeOwnership(k *observed.Kinds, x, o client.Object) observed.Parent {
	labels, annotations := maps.Clone(x.GetLabels()), maps.Clone(x.GetAnnotations())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[observed.ManagedByLabel] = k.Operator
	of := observed.Parent{UID: o.GetUID(), CrossNamespace: o.GetNamespace() != "" && x.GetNamespace() != o.GetNamespace()}
	if of.CrossNamespace {
		if annotations == nil {
			annotations = map[string]string{}
		}
		labels[apply.OwnerUIDLabel] = string(o.GetUID())
		annotations[apply.OwnerAnnotation] = client.ObjectKeyFromObject(o).String()
	}
	x.SetLabels(labels)
	x.SetAnnotations(annotations)
	return of
}

// offlineKinds returns the operator's kinds as far as they are known without an API server.
func offlineKinds(op *desired.Definition) (*observed.Kinds, error) {
	if err := op.Validate(); err != nil {
		return nil, err
	}
	scheme, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	if !op.Decorates {
		if err := clientgoscheme.AddToScheme(scheme); err != nil {
			return nil, fmt.Errorf("registering the built-in types: %w", err)
		}
	}
	if err := op.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the types of operator %s: %w", op.Name, err)
	}
	for gvk := range clientgoscheme.Scheme.AllKnownTypes() {
		if slices.Contains(clusterScoped, gvk.GroupKind().String()) {
			mapper.Add(gvk, meta.RESTScopeRoot)
		}
	}
	return op.Kinds(scheme, mapper)
}

// clusterScoped lists the cluster-scoped kinds of client-go that an operator may apply.
var clusterScoped = []string{
	"Namespace", "Node", "PersistentVolume", "ClusterRole.rbac.authorization.k8s.io",
	"ClusterRoleBinding.rbac.authorization.k8s.io", "StorageClass.storage.k8s.io", "CSIDriver.storage.k8s.io",
	"VolumeAttributesClass.storage.k8s.io", "PriorityClass.scheduling.k8s.io", "IngressClass.networking.k8s.io",
	"RuntimeClass.node.k8s.io", "DeviceClass.resource.k8s.io",
	"ValidatingWebhookConfiguration.admissionregistration.k8s.io", "MutatingWebhookConfiguration.admissionregistration.k8s.io",
	"ValidatingAdmissionPolicy.admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
	"CertificateSigningRequest.certificates.k8s.io", "FlowSchema.flowcontrol.apiserver.k8s.io",
	"PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
}
