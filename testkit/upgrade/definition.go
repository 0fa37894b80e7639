package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serve changes the CustomResourceDefinition, and waits until the API server serves and stores objects accordingly. It then
// ends all watches that it has accepted before.
func (u *upgrade) serve(s step) error {
	versions := u.versionsIn(s)
	if len(versions) != len(s.served) {
		return fmt.Errorf("the CustomResourceDefinition does not have all versions of %v", s.served)
	}
	conversion := u.conversion
	if len(versions) == 1 {
		conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"versions": versions, "conversion": map[string]any{
		"strategy": conversion.Strategy, "webhook": conversion.Webhook,
	}}})
	if err != nil {
		return fmt.Errorf("changing the versions: %w", err)
	}
	ctx, cancel := context.WithTimeout(u.k.Context(), u.k.Timeout)
	defer cancel()
	former, err := u.k.Client.Watch(ctx, u.list(u.kind.Former.Version))
	if err != nil {
		return fmt.Errorf("watching the objects: %w", err)
	}
	defer former.Stop()
	generation := u.crd.Generation
	if err := u.k.Client.Patch(ctx, u.crd, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("changing the versions: %w", err)
	}
	for ended := u.crd.Generation == generation; !ended; {
		_, open := <-former.ResultChan()
		ended = !open
	}
	return u.wait(func(ctx context.Context) error { return u.requireServed(ctx, s.served) })
}

func (u *upgrade) requireServed(ctx context.Context, served []string) error {
	for _, version := range []string{u.kind.Former.Version, u.kind.Present.Version} {
		err := u.k.Client.List(ctx, u.list(version), client.Limit(1))
		if slices.Contains(served, version) {
			if err != nil {
				return fmt.Errorf("listing objects in %s: %w", version, err)
			}
			continue
		}
		if err == nil {
			return fmt.Errorf("%s is still served", version)
		}
	}
	return nil
}

// rewrite writes an object without a change.
func (u *upgrade) rewrite(ctx context.Context, o *unstructured.Unstructured) error {
	if err := u.k.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte("{}"))); err != nil {
		return fmt.Errorf("writing %s in %s: %w", client.ObjectKeyFromObject(o), o.GroupVersionKind().Version, err)
	}
	return nil
}

// storedVersions returns the versions in the status, and none after an error.
func (u *upgrade) storedVersions() []string {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := u.k.Client.Get(u.k.Context(), client.ObjectKeyFromObject(u.crd), crd); err != nil {
		return nil
	}
	return crd.Status.StoredVersions
}

// waitMigrated waits until the status says that all objects are stored in a version. It waits as long as objects are
// written.
func (u *upgrade) waitMigrated(version string) error {
	before, err := u.writes(version)
	for err == nil {
		err = u.wait(func(context.Context) error {
			if got := u.storedVersions(); !slices.Equal(got, []string{version}) {
				return fmt.Errorf("status.storedVersions of the CustomResourceDefinition is %v, not [%s], and no object was written: "+
					"the test or its operators must run a storage migration, such as migration.Migrator", got, version)
			}
			return nil
		})
		if err == nil {
			return nil
		}
		now, readErr := u.writes(version)
		if readErr != nil || now == before {
			return errors.Join(err, readErr)
		}
		before, err = now, nil
	}
	return err
}

// writes returns a text that each write to an object changes.
func (u *upgrade) writes(version string) (string, error) {
	all, err := u.read(version)
	var b strings.Builder
	for _, name := range sortedKeys(all) {
		fmt.Fprintln(&b, name, all[name].GetResourceVersion())
	}
	return b.String(), err
}

// requireStored reports an object that is not stored in the version, although the status says so.
func (u *upgrade) requireStored(version string) error {
	all, err := u.read(version)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range sortedKeys(all) {
		isStored, err := u.isStored(all[name])
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			errs = append(errs, err)
		case !isStored:
			errs = append(errs, fmt.Errorf("%s was not stored in %s, although the migration has ended", name, version))
		}
	}
	return errors.Join(errs...)
}

// isStored reports whether an object is stored in the storage version: a write without a change then writes nothing. The
// operator may write in between.
func (u *upgrade) isStored(o *unstructured.Unstructured) (bool, error) {
	for {
		if err := u.k.Client.Get(u.k.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return false, err
		}
		before := o.DeepCopy()
		if err := u.rewrite(u.k.Context(), o); err != nil {
			return false, err
		}
		if o.GetResourceVersion() == before.GetResourceVersion() {
			return true, nil
		}
		for _, state := range []*unstructured.Unstructured{before, o} {
			state.SetResourceVersion("")
			state.SetManagedFields(nil)
		}
		if equality.Semantic.DeepEqual(before.Object, o.Object) {
			return false, nil
		}
	}
}
