package history

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// This file selects the kinds that a recorder watches, each in one version.

// ignored lists resources that are irrelevant for an operator, or duplicates of others.
var ignored = map[schema.GroupResource]bool{
	{Group: "events.k8s.io", Resource: "events"}:                           true, // the objects of the core group
	{Group: "coordination.k8s.io", Resource: "leases"}:                     true,
	{Group: "coordination.k8s.io", Resource: "leasecandidates"}:            true,
	{Group: "discovery.k8s.io", Resource: "endpointslices"}:                true,
	{Group: "", Resource: "endpoints"}:                                     true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true,
}

// builtIn has the types that testkit.Env always registers.
var builtIn = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	return scheme
}()

// customTypes identifies the types of a scheme that are not built in. Schemes with the same ones share a recorder.
func customTypes(scheme *runtime.Scheme) string {
	var all []string
	for gvk := range scheme.AllKnownTypes() {
		if !builtIn.Recognizes(gvk) {
			all = append(all, gvk.String())
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// watchable lists the kinds of namespaced objects that support watches, and the cluster-scoped kinds if these are requested.
// Each has one version: the one that the API server prefers of those in the scheme, or of all if the scheme has none of
// them. The list is incomplete if an aggregated API server does not respond.
func watchable(
	cfg *rest.Config, scheme *runtime.Scheme, clusterScoped bool,
) (kinds []schema.GroupVersionResource, complete bool, _ error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, false, fmt.Errorf("asking for the API server's kinds: %w", err)
	}
	groups, lists, err := client.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, false, fmt.Errorf("asking for the API server's kinds: %w", err)
	}
	resources := map[string][]metav1.APIResource{}
	for _, list := range lists {
		resources[list.GroupVersion] = list.APIResources
	}
	var typed, others []schema.GroupVersionResource
	for _, version := range preferredFirst(groups) {
		for _, r := range resources[version.String()] {
			switch {
			case !clusterScoped && !r.Namespaced, !slices.Contains(r.Verbs, "watch"), !slices.Contains(r.Verbs, "list"):
			case scheme.Recognizes(version.WithKind(r.Kind)):
				typed = append(typed, version.WithResource(r.Name))
			default:
				others = append(others, version.WithResource(r.Name))
			}
		}
	}
	selected := map[schema.GroupResource]bool{}
	for _, kind := range slices.Concat(typed, others) {
		if resource := kind.GroupResource(); !ignored[resource] && !selected[resource] {
			selected[resource] = true
			kinds = append(kinds, kind)
		}
	}
	return kinds, err == nil, nil
}

// preferredFirst returns the versions of all groups. Within a group they have the order of the API server's preference.
func preferredFirst(groups []*metav1.APIGroup) []schema.GroupVersion {
	var all []schema.GroupVersion
	for _, group := range groups {
		for _, v := range slices.Concat([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions) {
			all = append(all, schema.GroupVersion{Group: group.Name, Version: v.Version})
		}
	}
	return all
}
