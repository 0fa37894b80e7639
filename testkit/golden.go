package testkit

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// goldenQuiet is the time without writes after which the operators count as converged.
const goldenQuiet = 2 * time.Second

// Golden compares objects with a file, in a reproducible form: without the additions of the server or the cluster, and
// with generated names, versions and times masked. Without objects, it takes all objects that the test's operators
// created, and those whose status they write. It compares the status of a kind if an operator writes it.
//
// Golden returns as soon as the objects equal the file. If they differ when the operators are idle, or after K.Timeout,
// the test fails with the difference. With the test flag -update, Golden writes the file instead.
func (k *K) Golden(file string, objects ...client.Object) {
	k.t.Helper()
	if k.obs == nil {
		k.t.Fatalf("comparing with %s: neither benchmarks nor exploring know what an operator has made", file)
	}
	k.obs.record("compares with %s", file)
	if err := k.golden(file, objects); err != nil {
		k.t.Fatalf("%v", err)
	}
}

func (k *K) golden(file string, objects []client.Object) error {
	if updating() {
		got, err := k.converged(objects, func(documents) bool { return false })
		switch {
		case err != nil:
			return fmt.Errorf("writing %s: %w", file, err)
		case len(got) == 0:
			return fmt.Errorf("writing %s: the operators have made nothing within %v", file, k.Timeout)
		}
		return got.write(file)
	}
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("comparing with %s: there is no such file; write it with\n    %s -update", file, replay(k.t.Name()))
	case err != nil:
		return fmt.Errorf("comparing with a golden file: %w", err)
	}
	want, err := readDocuments(data)
	if err != nil {
		return fmt.Errorf("comparing with %s: %w", file, err)
	}
	got, err := k.converged(objects, func(got documents) bool { return gocmp.Equal(want, got) })
	if err != nil {
		return fmt.Errorf("comparing with %s: %w", file, err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		return fmt.Errorf("comparing with %s (-want +got):\n%s\nIf that is right, write it with\n    %s -update",
			file, diff, replay(k.t.Name()))
	}
	return nil
}

// converged returns the objects once the operators are idle and have created something, or earlier if enough returns
// true. It returns after K.Timeout in any case.
func (k *K) converged(objects []client.Object, enough func(documents) bool) (documents, error) {
	ctx, cancel := context.WithTimeout(k.Context(), k.Timeout)
	defer cancel()
	began := time.Now()
	for {
		rested := time.Since(began) >= goldenQuiet && k.obs.idle(goldenQuiet)
		got, err := k.canonical(k.Context(), objects)
		if err != nil || enough(got) || rested && len(got) > 0 || ctx.Err() != nil {
			return got, err
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
		}
	}
}

// updating reports whether to write golden files.
func updating() bool {
	f := flag.Lookup(updateFlag)
	return f != nil && f.Value.String() == "true"
}

// defineUpdate defines the flag -update, unless the package has a flag of that name.
func defineUpdate() {
	if flag.Lookup(updateFlag) == nil {
		flag.Bool(updateFlag, false, "write golden files instead of comparing with them")
	}
}

// canonical returns the current state of the objects, or of the operators' objects if none are given.
func (k *K) canonical(ctx context.Context, objects []client.Object) (documents, error) {
	calls := k.obs.calls()
	status := oracle.StatusKinds(calls)
	var current []history.Change
	var err error
	if len(objects) > 0 {
		current, err = k.refreshed(ctx, objects)
	} else {
		current, err = k.operatedObjects(ctx, calls, status)
	}
	if err != nil {
		return nil, err
	}
	names := state.NewNameMap(k.Namespace, append(k.obs.history(), current...), nil, time.Time{})
	docs := documents{}
	for _, c := range current {
		document := names.Document(c.Object, status[oracle.GroupResourceOf(c)])
		normal, err := normalized(document)
		if err != nil {
			return nil, err
		}
		docs[key(normal)] = normal
	}
	return docs, nil
}

// refreshed gets the objects that the test has named.
func (k *K) refreshed(ctx context.Context, objects []client.Object) ([]history.Change, error) {
	all := make([]history.Change, 0, len(objects))
	for _, object := range objects {
		if _, err := k.locate(object); err != nil {
			return nil, err
		}
		gvk, err := apiutil.GVKForObject(object, k.conn.scheme)
		if err != nil {
			return nil, fmt.Errorf("finding the kind of %T: %w", object, err)
		}
		mapping, err := k.conn.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return nil, fmt.Errorf("finding the resource of %s: %w", gvk.Kind, err)
		}
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		switch err := k.admin.Get(ctx, client.ObjectKeyFromObject(object), u); {
		case apierrors.IsNotFound(err):
			continue // it may still be created
		case err != nil:
			return nil, fmt.Errorf("getting %s %s: %w", gvk.Kind, object.GetName(), err)
		}
		all = append(all, history.Change{Resource: mapping.Resource, Object: u})
	}
	return all, nil
}

// operatedObjects returns the objects that the operators created or report a status on, in the order of the writes.
func (k *K) operatedObjects(
	ctx context.Context, calls []intercept.Call, status map[intercept.GroupResource]bool,
) ([]history.Change, error) {
	var all []history.Change
	known := map[string]bool{}
	for _, c := range calls {
		created := c.Code == http.StatusCreated && c.Subresource == ""
		reported := c.Subresource == "status" && c.IsWrite() && c.Code < http.StatusMultipleChoices &&
			status[intercept.GroupResourceOf(c.Request)]
		if c.UID == "" || known[c.UID] || c.Resource == "events" || intercept.IsLease(c.Request) || (!created && !reported) {
			continue
		}
		known[c.UID] = true
		u, err := k.written(ctx, c)
		if err != nil {
			return nil, err
		}
		if u != nil {
			resource := schema.GroupVersionResource{Group: c.Group, Resource: c.Resource}
			all = append(all, history.Change{Resource: resource, Object: u})
		}
	}
	return all, nil
}

// written gets the object that a request has written, or nil if it no longer exists.
func (k *K) written(ctx context.Context, c intercept.Call) (*unstructured.Unstructured, error) {
	gvk, err := k.conn.mapper.KindFor(schema.GroupVersionResource{Group: c.Group, Resource: c.Resource})
	if meta.IsNoMatchError(err) {
		return nil, nil //nolint:nilnil // its kind has gone, too
	} else if err != nil {
		return nil, fmt.Errorf("finding the kind of %s: %w", c.Resource, err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	err = k.admin.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Name}, u)
	switch {
	case apierrors.IsNotFound(err), err == nil && string(u.GetUID()) != c.UID:
		return nil, nil //nolint:nilnil // it was deleted
	case err != nil:
		return nil, fmt.Errorf("getting what was made by %s: %w", c, err)
	default:
		return u, nil
	}
}

// documents are canonical objects by kind and name, such as "Deployment web".
type documents map[string]any

func key(document map[string]any) string {
	name, _, _ := unstructured.NestedString(document, "metadata", "name")
	return fmt.Sprintf("%v %s", document["kind"], name)
}

// normalized returns a document as it reads after a round trip through YAML.
func normalized(document map[string]any) (map[string]any, error) {
	data, err := yaml.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", key(document), err)
	}
	var read map[string]any
	if err := yaml.Unmarshal(data, &read); err != nil {
		return nil, fmt.Errorf("reading %s: %w", key(document), err)
	}
	return read, nil
}

func readDocuments(data []byte) (documents, error) {
	objects, err := manifest.Decode(data)
	if err != nil {
		return nil, err
	}
	docs := documents{}
	for _, u := range objects {
		normal, err := normalized(u.Object)
		if err != nil {
			return nil, err
		}
		docs[key(normal)] = normal
	}
	return docs, nil
}

func (d documents) write(file string) error {
	var b bytes.Buffer
	for i, name := range slices.SortedFunc(maps.Keys(d), strings.Compare) {
		data, err := yaml.Marshal(d[name])
		if err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(data)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("writing a golden file: %w", err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil { //nolint:gosec // it is source
		return fmt.Errorf("writing a golden file: %w", err)
	}
	return nil
}
