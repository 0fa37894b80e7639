package realnodes_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// objects returns the names of all objects of the cluster except for events and leases: those of the nodes are made by
// kubelets at any time.
func (s *suite) objects() map[string]bool {
	s.t.Helper()
	all, err := s.listObjects(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

func (s *suite) listObjects(ctx context.Context) (map[string]bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(s.Config)
	if err != nil {
		return nil, err
	}
	groups, err := client.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range group.APIResources {
			if !slices.Contains(resource.Verbs, "list") || resource.Kind == "Event" || resource.Kind == "Lease" {
				continue
			}
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(version.WithKind(resource.Kind + "List"))
			if err := s.Client.List(ctx, list); err != nil {
				return nil, fmt.Errorf("listing %s: %w", resource.Name, err)
			}
			for _, o := range list.Items {
				all[resource.Kind+" "+o.Namespace+"/"+o.Name] = true
			}
		}
	}
	return all, nil
}

// waitLeft waits until these objects are all that the cluster has beside those of before.
func (s *suite) waitLeft(before map[string]bool, want ...string) {
	s.t.Helper()
	slices.Sort(want)
	s.Wait("the cluster is as before", func(ctx context.Context) error {
		all, err := s.listObjects(ctx)
		if err != nil {
			return err
		}
		maps.DeleteFunc(all, func(name string, _ bool) bool { return before[name] })
		if left := slices.Sorted(maps.Keys(all)); !slices.Equal(left, want) {
			return fmt.Errorf("left is\n%s\nand not\n%s", strings.Join(left, "\n"), strings.Join(want, "\n"))
		}
		return nil
	})
}
