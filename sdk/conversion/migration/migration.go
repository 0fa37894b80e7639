// Package migration rewrites the stored objects of a kind when the storage version of its CustomResourceDefinition has
// changed, and then removes the old versions from status.storedVersions. Only then may an old version be removed from the
// CustomResourceDefinition.
//
//	migrator := &migration.Migrator{CRDs: []string{"teams.example.com"}}
//	err := migrator.SetupWithManager(mgr)
//
// The progress is the condition [ConditionType] of the CustomResourceDefinition. At rest a Migrator has one watch for each
// CustomResourceDefinition, and sends no requests.
//
// # Rights
//
// A Migrator needs a ClusterRole with these rules:
//
//   - apiGroups: [apiextensions.k8s.io]
//     resources: [customresourcedefinitions]
//     resourceNames: [teams.example.com]
//     verbs: [list, watch]
//   - apiGroups: [apiextensions.k8s.io]
//     resources: [customresourcedefinitions/status]
//     resourceNames: [teams.example.com]
//     verbs: [patch]
//   - apiGroups: [example.com]
//     resources: [teams]
//     verbs: [get, list, patch]
package migration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// ConditionType is the type of the condition on a CustomResourceDefinition. It is True when all objects are stored in the
// storage version. Its message has the progress, the first failures, and what a migration needs to continue after a crash.
// It does not exist if there was nothing to migrate.
const ConditionType apiextensionsv1.CustomResourceDefinitionConditionType = "homeostat.dev/StorageMigrated"

// The reasons of the condition.
const (
	ReasonWaiting   = "Waiting"   // for [Migrator.Delay]
	ReasonMigrating = "Migrating" // objects are being rewritten
	ReasonFailed    = "Failed"    // some objects cannot be rewritten; they are tried again
	ReasonMigrated  = "Migrated"  // all objects are stored in the storage version
)

// Migrator is a controller that migrates the stored objects of some kinds, one kind after another.
//
// An object is rewritten by a patch without a change, with its resourceVersion and UID as precondition. An object that was
// changed or deleted meanwhile needs no patch. The patches are subject to admission, so a webhook can reject one: the old
// version then remains in status.storedVersions, and the object is tried again after 1 s to 10 minutes.
type Migrator struct {
	// CRDs are the names of the CustomResourceDefinitions, such as teams.example.com. Required.
	CRDs []string
	// PerSecond limits the patches. Zero means 10.
	PerSecond float64
	// Delay is the time between a change of the storage version and the first patch, so that all API servers know the change.
	// Zero means 10 s, and a negative value none.
	Delay time.Duration
}

// SetupWithManager adds the controller to a manager. With leader election it runs in the leader only.
func (m *Migrator) SetupWithManager(mgr manager.Manager) error {
	if err := m.validate(); err != nil {
		return err
	}
	requests, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("storage migration: %w", err)
	}
	r := &reconciler{metadata: requests, caches: map[string]client.Reader{}, delay: m.Delay}
	if r.delay == 0 {
		r.delay = 10 * time.Second
	}
	perSecond := m.PerSecond
	if perSecond == 0 {
		perSecond = 10
	}
	r.limiter = rate.NewLimiter(rate.Limit(perSecond), 1)
	unique := true
	c, err := controller.New("storage-migration", mgr, controller.Options{
		Reconciler:         r,
		RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 10*time.Minute),
		SkipNameValidation: &unique, // tests start several managers in one process
	})
	if err != nil {
		return fmt.Errorf("storage migration: %w", err)
	}
	for _, name := range m.CRDs {
		crds, err := watch(mgr, name)
		if err != nil {
			return fmt.Errorf("storage migration of %s: %w", name, err)
		}
		r.caches[name] = crds
		if err := c.Watch(source.Kind(crds, &apiextensionsv1.CustomResourceDefinition{},
			&handler.TypedEnqueueRequestForObject[*apiextensionsv1.CustomResourceDefinition]{}, storageChanged())); err != nil {
			return fmt.Errorf("storage migration of %s: %w", name, err)
		}
	}
	return nil
}

func (m *Migrator) validate() error {
	var errs []error
	if len(m.CRDs) == 0 {
		errs = append(errs, errors.New("storage migration: field CRDs is empty: name a CustomResourceDefinition"))
	}
	for i, name := range m.CRDs {
		if !strings.Contains(name, ".") {
			errs = append(errs, fmt.Errorf("storage migration: %q is no name of a CustomResourceDefinition, such as "+
				"teams.example.com", name))
		}
		if slices.Contains(m.CRDs[:i], name) {
			errs = append(errs, fmt.Errorf("storage migration: %s is in field CRDs twice", name))
		}
	}
	if m.PerSecond < 0 {
		errs = append(errs, fmt.Errorf("storage migration: field PerSecond is %v: give a positive number", m.PerSecond))
	}
	return errors.Join(errs...)
}

// watch returns a cache of one CustomResourceDefinition without its schemas.
func watch(mgr manager.Manager, name string) (cache.Cache, error) {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(),
		Scheme:     scheme,
		Mapper:     mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&apiextensionsv1.CustomResourceDefinition{}: {
				Field:     fields.OneTermEqualSelector(metav1.ObjectNameField, name),
				Transform: withoutSchemas,
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return c, mgr.Add(c)
}

func withoutSchemas(o any) (any, error) {
	if crd, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
		crd.ManagedFields = nil
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Schema = nil
		}
	}
	return o, nil
}

// storageChanged drops the events of changed conditions, most of which the migration has caused.
func storageChanged() predicate.TypedPredicate[*apiextensionsv1.CustomResourceDefinition] {
	return predicate.TypedFuncs[*apiextensionsv1.CustomResourceDefinition]{
		UpdateFunc: func(e event.TypedUpdateEvent[*apiextensionsv1.CustomResourceDefinition]) bool {
			before, now := e.ObjectOld, e.ObjectNew
			return before.UID != now.UID || before.Generation != now.Generation ||
				!slices.Equal(before.Status.StoredVersions, now.Status.StoredVersions)
		},
		DeleteFunc: func(event.TypedDeleteEvent[*apiextensionsv1.CustomResourceDefinition]) bool { return false },
	}
}
