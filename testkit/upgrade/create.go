package upgrade

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// create creates variants of the sample of a release. The first one is the sample itself.
func (u *upgrade) create(r *Release) error {
	s, err := schema.New(u.crd, r.Version)
	if err != nil {
		return err
	}
	sample, err := u.sample(r)
	if err != nil {
		return err
	}
	var created []*unstructured.Unstructured
	for i := range u.kind.Objects {
		o := sample.DeepCopy()
		o.SetName(fmt.Sprintf("%s-%02d", r.Version, i))
		if u.crd.Spec.Scope == apiextensionsv1.ClusterScoped {
			o.SetName(o.GetName() + "-" + u.k.Namespace)
		} else {
			o.SetNamespace(u.k.Namespace)
		}
		if o, err = u.vary(s, o, i); err != nil {
			return err
		}
		status, hasStatus := o.Object["status"]
		if err := u.k.Client.Create(u.k.Context(), o); err != nil {
			return fmt.Errorf("creating an object of %s: %w", r.Sample, err)
		}
		if r.Start == nil && hasStatus {
			o.Object["status"] = status
			if err := u.k.Client.Status().Update(u.k.Context(), o); err != nil {
				return fmt.Errorf("writing the status of %s: %w", r.Sample, err)
			}
		}
		created = append(created, o)
	}
	if u.operator != nil {
		u.awaitOperator(created)
	}
	return nil
}

// observeTime limits the wait for an operator that writes nothing to new objects.
const observeTime = 5 * time.Second

// awaitOperator waits until the operator has written to each new object. Its watch may have ended with the change of the
// definition, and it would seem idle until it watches again.
func (u *upgrade) awaitOperator(created []*unstructured.Unstructured) {
	ctx, cancel := context.WithTimeout(u.k.Context(), observeTime)
	defer cancel()
	for _, o := range created {
		now := o.DeepCopy()
		_ = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			err := u.k.Client.Get(ctx, client.ObjectKeyFromObject(o), now)
			return err == nil && now.GetResourceVersion() != o.GetResourceVersion(), nil
		})
	}
}

// sample returns the object of the kind in the file.
func (u *upgrade) sample(r *Release) (*unstructured.Unstructured, error) {
	all, err := manifest.Read(r.Sample)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		if o.GroupVersionKind() == u.gvk(r.Version) {
			return o, nil
		}
	}
	return nil, fmt.Errorf("%s has no %s", r.Sample, u.gvk(r.Version))
}

// othersPerObject is the reciprocal share of the properties that an object has with another value, beside its own ones.
const othersPerObject = 8

// vary returns object i with other values of some properties: of each property whose number is i modulo the number of
// objects, and of others. A value that the API server refuses is not used.
func (u *upgrade) vary(s *schema.Schema, o *unstructured.Unstructured, i int) (*unstructured.Unstructured, error) {
	random := rand.New(rand.NewPCG(1, uint64(i))) //nolint:gosec // an index is not negative, and nothing is secret
	if i == 0 {
		return o, nil
	}
	for n, property := range s.Properties() {
		if n%(u.kind.Objects-1) != i-1 && random.IntN(othersPerObject) > 0 {
			continue
		}
		changes, err := s.MutationsOf(o, property)
		if err != nil {
			return nil, err
		}
		if len(changes) == 0 {
			continue
		}
		changed, ok := changes[random.IntN(len(changes))].Apply(o)
		if !ok {
			continue
		}
		switch err := u.k.Client.Create(u.k.Context(), changed.DeepCopy(), client.DryRunAll); {
		case err == nil:
			o = changed
		case !isRefusal(err):
			return nil, fmt.Errorf("creating an object in a dry run: %w", err)
		}
	}
	return o, nil
}

// isRefusal reports whether the API server or a webhook refused an object.
func isRefusal(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError
}
