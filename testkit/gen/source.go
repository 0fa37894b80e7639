package gen

import (
	"fmt"
	"io/fs"
	"os"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// A Source provides the schema and the sample of the custom resource.
type Source struct {
	read func() (*schema.Schema, *unstructured.Unstructured, error)
}

// From reads a CustomResourceDefinition and a valid custom resource from files, which may contain other objects. The
// sample determines the version.
func From(crd, sample string) Source {
	return files{crd, sample, os.ReadFile, manifest.Read}.source()
}

// FromFS is From for a file system, such as an embed.FS.
func FromFS(fsys fs.FS, crd, sample string) Source {
	return files{
		crd, sample,
		func(name string) ([]byte, error) { return fs.ReadFile(fsys, name) },
		func(name string) ([]*unstructured.Unstructured, error) { return manifest.ReadFS(fsys, name, name) },
	}.source()
}

// files locates a CustomResourceDefinition and a sample.
type files struct {
	crd, sample string

	data    func(name string) ([]byte, error)
	objects func(name string) ([]*unstructured.Unstructured, error)
}

func (f files) source() Source {
	return Source{func() (*schema.Schema, *unstructured.Unstructured, error) {
		data, err := f.data(f.crd)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the CustomResourceDefinition: %w", err)
		}
		stored, err := schema.Parse(data, "")
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.crd, err)
		}
		samples, err := f.objects(f.sample)
		if err != nil {
			return nil, nil, err
		}
		kind := stored.Kind.GroupKind()
		i := slices.IndexFunc(samples, func(u *unstructured.Unstructured) bool {
			return u.GroupVersionKind().GroupKind() == kind
		})
		if i < 0 {
			return nil, nil, fmt.Errorf("%s has no %s, which is what %s defines: give a sample of it", f.sample, kind, f.crd)
		}
		s, err := schema.Parse(data, samples[i].GroupVersionKind().Version)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.crd, err)
		}
		return s, samples[i], nil
	}}
}

// FromObjects is From for Go values. Without apiVersion and kind in the sample, the version is the stored one.
func FromObjects(crd *apiextensionsv1.CustomResourceDefinition, sample client.Object) Source {
	return Source{func() (*schema.Schema, *unstructured.Unstructured, error) {
		s, err := schema.New(crd, sample.GetObjectKind().GroupVersionKind().Version)
		if err != nil {
			return nil, nil, err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sample)
		if err != nil {
			return nil, nil, fmt.Errorf("converting the sample: %w", err)
		}
		return s, &unstructured.Unstructured{Object: content}, nil
	}}
}
