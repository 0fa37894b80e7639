package upgrade

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// child is an object that belongs to a custom resource.
type child struct {
	uid   types.UID
	owner string
}

// findChildren returns the objects of all kinds with an owner reference to a custom resource, or with its UID in a label.
func (u *upgrade) findChildren() (map[string]child, error) {
	owners := map[types.UID]string{}
	for _, all := range u.want {
		for name, o := range all {
			owners[o.GetUID()] = u.crd.Spec.Names.Kind + " " + name
		}
	}
	found := map[string]child{}
	if len(owners) == 0 {
		return found, nil
	}
	kinds, err := u.kinds()
	if err != nil {
		return nil, err
	}
	c, err := metadata.NewForConfig(u.k.Config)
	if err != nil {
		return nil, fmt.Errorf("listing children: %w", err)
	}
	for _, kind := range kinds {
		list, err := c.Resource(kind).List(u.k.Context(), metav1.ListOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue // the kind has been removed
		case err != nil:
			return nil, fmt.Errorf("listing children: %w", err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if owner, ok := ownerOf(o, owners); ok {
				name := kind.GroupResource().String() + " " + types.NamespacedName{Namespace: o.Namespace, Name: o.Name}.String()
				found[name] = child{o.UID, owner}
			}
		}
	}
	return found, nil
}

// kinds returns the resources that can be listed and deleted, except events, which expire, and the kind itself.
func (u *upgrade) kinds() ([]schema.GroupVersionResource, error) {
	c, err := discovery.NewDiscoveryClientForConfig(u.k.Config)
	if err != nil {
		return nil, fmt.Errorf("listing the kinds of children: %w", err)
	}
	lists, err := c.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("listing the kinds of children: %w", err)
	}
	var kinds []schema.GroupVersionResource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("listing the kinds of children: %w", err)
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") && r.Kind != "Event" &&
				(version.Group != u.crd.Spec.Group || r.Kind != u.crd.Spec.Names.Kind) {
				kinds = append(kinds, version.WithResource(r.Name))
			}
		}
	}
	return kinds, nil
}

func ownerOf(o *metav1.PartialObjectMetadata, owners map[types.UID]string) (string, bool) {
	for _, reference := range o.OwnerReferences {
		if owner, ok := owners[reference.UID]; ok {
			return owner, true
		}
	}
	for _, value := range o.Labels {
		if owner, ok := owners[types.UID(value)]; ok {
			return owner, true
		}
	}
	return "", false
}

// lostChildren returns a line for each child that does not exist any more.
func lostChildren(before, now map[string]child) []string {
	var lost []string
	for _, name := range sortedKeys(before) {
		is, exists := now[name]
		switch was := before[name]; {
		case !exists:
			lost = append(lost, fmt.Sprintf("%s: its child %s was deleted or has another owner", was.owner, name))
		case is.uid != was.uid:
			lost = append(lost, fmt.Sprintf("%s: its child %s was deleted and created again", was.owner, name))
		}
	}
	return lost
}
