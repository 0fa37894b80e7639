package v0

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IsConnected reports whether OLM has connected to the current content of a catalog.
func IsConnected(s *v1alpha1.CatalogSource) bool {
	return s.Status.GRPCConnectionState != nil && s.Status.GRPCConnectionState.LastObservedState == "READY" &&
		(s.Spec.Address == "" || s.Status.GRPCConnectionState.Address == s.Spec.Address)
}

// CheckInstalled returns an error until all Subscriptions have these versions, by package, and OLM has nothing left to do.
func CheckInstalled(ctx context.Context, c client.Client, want map[string]string) error {
	var subscriptions v1alpha1.SubscriptionList
	if err := c.List(ctx, &subscriptions); err != nil {
		return err
	}
	for _, s := range subscriptions.Items {
		csv := s.Spec.Package + ".v" + want[s.Spec.Package]
		if s.Status.InstalledCSV != csv || s.Status.State != v1alpha1.SubscriptionStateAtLatest {
			return fmt.Errorf("%s is %s with %q, want %s; %+v",
				s.Name, s.Status.State, s.Status.InstalledCSV, csv, s.Status.Conditions)
		}
	}
	var versions v1alpha1.ClusterServiceVersionList
	var plans v1alpha1.InstallPlanList
	if err := errors.Join(c.List(ctx, &versions), c.List(ctx, &plans)); err != nil {
		return err
	}
	versions.Items = slices.DeleteFunc(versions.Items, func(v v1alpha1.ClusterServiceVersion) bool { return v.IsCopied() })
	for _, v := range versions.Items {
		if v.Status.Phase != v1alpha1.CSVPhaseSucceeded {
			return fmt.Errorf("%s is %s: %s", v.Name, v.Status.Phase, v.Status.Message)
		}
	}
	for _, p := range plans.Items {
		if p.Status.Phase != v1alpha1.InstallPlanPhaseComplete {
			return fmt.Errorf("InstallPlan %s is %s: %+v", p.Name, p.Status.Phase, p.Status.Conditions)
		}
	}
	if len(subscriptions.Items) != len(want) || len(versions.Items) != len(want) {
		return fmt.Errorf("there are %d Subscriptions and %d versions, want %d",
			len(subscriptions.Items), len(versions.Items), len(want))
	}
	return nil
}
