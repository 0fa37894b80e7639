package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// fieldManager is the name of the patches in managedFields, if admission changes an object.
	fieldManager = "homeostat-storage-migration"
	// pageSize is the number of objects in one response.
	pageSize = 500
	// reportInterval is the time between two updates of the condition.
	reportInterval = 5 * time.Second
	// maxReported is the number of failures in the condition.
	maxReported = 3
)

type reconciler struct {
	metadata metadata.Interface
	caches   map[string]client.Reader
	limiter  *rate.Limiter
	delay    time.Duration
}

// Reconcile migrates the objects of one CustomResourceDefinition, which may take long.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := r.caches[request.Name].Get(ctx, request.NamespacedName, &crd); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	m := &run{reconciler: r, crd: &crd, storage: storageVersion(&crd)}
	if crd.DeletionTimestamp != nil || m.storage == "" || len(crd.Status.StoredVersions) == 0 {
		return reconcile.Result{}, nil
	}
	if slices.Equal(crd.Status.StoredVersions, []string{m.storage}) {
		if c := m.condition(); c != nil && c.Status != apiextensionsv1.ConditionTrue {
			return reconcile.Result{}, m.finish(ctx) // another client has removed the old versions
		}
		return reconcile.Result{}, nil
	}
	if wait, err := m.wait(ctx); wait > 0 || err != nil {
		return reconcile.Result{RequeueAfter: wait}, err
	}
	return reconcile.Result{}, m.migrate(ctx)
}

func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Storage {
			return crd.Spec.Versions[i].Name
		}
	}
	return ""
}

// run is the migration of the objects of one CustomResourceDefinition.
type run struct {
	*reconciler

	crd      *apiextensionsv1.CustomResourceDefinition
	storage  string
	start    string // the resourceVersion at the start: an object with a greater one is in the storage version
	total    int
	done     int
	failures []string
	reported time.Time
}

// wait returns the time until the first patch.
func (m *run) wait(ctx context.Context) (time.Duration, error) {
	if m.delay < 0 {
		return 0, nil
	}
	c := m.condition()
	if c != nil && c.Status == apiextensionsv1.ConditionFalse && strings.HasSuffix(c.Message, m.generation()) {
		if c.Reason != ReasonWaiting {
			return 0, nil
		}
		return time.Until(c.LastTransitionTime.Add(m.delay)), nil
	}
	message := fmt.Sprintf("the objects will be rewritten in %s, when all API servers know that it is the storage version",
		m.storage)
	return m.delay, m.report(ctx, ReasonWaiting, message+" "+m.generation(), nil)
}

// migrate rewrites all objects that may be stored in another version.
func (m *run) migrate(ctx context.Context) error {
	gvr, err := m.resource()
	if err != nil {
		return errors.Join(err, m.report(ctx, ReasonFailed, err.Error()+" "+m.generation(), nil))
	}
	objects, version, err := m.list(ctx, gvr)
	if err != nil {
		return fmt.Errorf("listing %s: %w", gvr.Resource, err)
	}
	if m.start = m.recorded(); m.start == "" {
		m.start = version
	}
	m.total = len(objects)
	objects = slices.DeleteFunc(objects, func(o object) bool {
		order, err := resourceversion.CompareResourceVersion(o.version, m.start)
		return err == nil && order > 0
	})
	m.done = m.total - len(objects)
	log.FromContext(ctx).Info("Rewriting objects", "storageVersion", m.storage, "objects", len(objects), "of", m.total)
	if err := m.progress(ctx, ReasonMigrating); err != nil {
		return err
	}
	for _, o := range objects {
		if err := m.rewrite(ctx, gvr, o); err != nil {
			return err
		}
		if time.Since(m.reported) >= reportInterval {
			if err := m.progress(ctx, ReasonMigrating); err != nil {
				return err
			}
		}
	}
	if len(m.failures) > 0 {
		return errors.Join(fmt.Errorf("%d of %d %s cannot be rewritten in %s, the first is %s",
			len(m.failures), m.total, gvr.Resource, m.storage, m.failures[0]), m.progress(ctx, ReasonFailed))
	}
	return m.finish(ctx)
}

// resource returns the resource in the storage version, or in another one if the API server does not serve that.
func (m *run) resource() (schema.GroupVersionResource, error) {
	gvr := schema.GroupVersionResource{Group: m.crd.Spec.Group, Resource: m.crd.Spec.Names.Plural}
	for i := range m.crd.Spec.Versions {
		v := &m.crd.Spec.Versions[i]
		if v.Served && (gvr.Version == "" || v.Storage) {
			gvr.Version = v.Name
		}
	}
	if gvr.Version == "" {
		return gvr, errors.New("no version is served, so no object can be rewritten: serve one")
	}
	return gvr, nil
}

// object identifies a version of an object.
type object struct {
	namespace, name, version string
	uid                      types.UID
}

// list returns all objects, and the resourceVersion of the list. It reads metadata only, in pages.
func (m *run) list(ctx context.Context, gvr schema.GroupVersionResource) ([]object, string, error) {
	var objects []object
	var options metav1.ListOptions
	options.Limit = pageSize
	for {
		page, err := m.metadata.Resource(gvr).List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		for i := range page.Items {
			o := &page.Items[i]
			objects = append(objects, object{o.Namespace, o.Name, o.ResourceVersion, o.UID})
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return objects, page.ResourceVersion, nil
		}
	}
}

// rewrite patches an object without a change: the API server stores it in the storage version. It returns an error if the
// migration has to end.
func (m *run) rewrite(ctx context.Context, gvr schema.GroupVersionResource, o object) error {
	if err := m.limiter.Wait(ctx); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": m.crd.Spec.Names.Kind,
		"metadata": map[string]any{"resourceVersion": o.version, "uid": o.uid},
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	objects := m.metadata.Resource(gvr).Namespace(o.namespace)
	_, err = objects.Patch(ctx, o.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsConflict(err) {
		err = changed(ctx, objects, o, err)
	}
	var status apierrors.APIStatus
	switch {
	case err == nil, apierrors.IsNotFound(err):
		m.done++
		return nil
	case !errors.As(err, &status), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err),
		apierrors.IsUnauthorized(err):
		return fmt.Errorf("rewriting %s: %w", o, err)
	default:
		m.failures = append(m.failures, fmt.Sprintf("%s: %s", o, status.Status().Message))
		return nil
	}
}

// changed returns nil if an object has changed since it was listed, and so was stored in the storage version. Otherwise it
// returns the conflict, which is the answer of a webhook.
func changed(ctx context.Context, objects metadata.ResourceInterface, o object, conflict error) error {
	now, err := objects.Get(ctx, o.name, metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case now.ResourceVersion == o.version:
		return conflict
	default:
		return nil
	}
}

// String returns the name with the namespace.
func (o object) String() string {
	return types.NamespacedName{Namespace: o.namespace, Name: o.name}.String()
}
