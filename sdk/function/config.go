package function

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Config is the declaration of an operator: its name and its kinds. See [Load].
type Config struct {
	// Version is the version of the format: 1.
	Version int `json:"version"`
	// Name identifies the operator, like the Name of an sdk.Operator. It must not change.
	Name string `json:"name"`
	// Doc describes the operator in one sentence. Optional.
	Doc string `json:"doc,omitempty"`
	// Kind is the kind that is reconciled. It has a status subresource.
	Kind Kind `json:"kind"`
	// Owns are the kinds of children.
	Owns []OwnedKind `json:"owns,omitempty"`
	// Observes are kinds of objects that children create, such as pods. See Observes of an sdk.Operator.
	Observes []Kind `json:"observes,omitempty"`
	// References are the kinds that the function may refer to.
	References []Kind `json:"references,omitempty"`
	// AnyReference lets the function refer to any kind. It is not part of the file: a file names the kinds, for the
	// permissions.
	AnyReference bool `json:"-"`
	// Decorates is for a kind that has a controller of its own: its status is not written, and answers may have labels and
	// annotations for the object. It is not part of the file.
	Decorates bool `json:"-"`
	// Selects reports whether an object with these labels and annotations is one of the operator, without those that the
	// operator itself has set. Of another object all children, and these labels and annotations, are removed. Nil selects all.
	// It is used only if Decorates is set.
	Selects func(labels, annotations map[string]string) bool `json:"-"`
	// Finalize calls the function for the clean-up of an object, which has a finalizer then.
	Finalize bool `json:"finalize,omitempty"`
	// ResyncSeconds is the interval between reconciles without any event. Zero means 600, a negative value none.
	ResyncSeconds float64 `json:"resyncSeconds,omitempty"`
}

// OwnedKind is a kind of children.
type OwnedKind struct {
	Kind `json:",inline"`
	// MetadataOnly caches only the metadata of this kind. See sdk.MetadataOnly.
	MetadataOnly bool `json:"metadataOnly,omitempty"`
	// ExclusiveMaps are maps at the top that belong to the operator alone. See sdk.ExclusiveMaps.
	ExclusiveMaps []string `json:"exclusiveMaps,omitempty"`
}

// Load reads the declaration in a YAML file. The error names the file and every mistake.
func Load(file string) (Config, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the user names the file.
	if err != nil {
		return Config{}, fmt.Errorf("reading the declaration of the operator: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// Parse reads the text of a declaration.
func Parse(data []byte) (Config, error) {
	var c Config
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: "), "while decoding JSON: ")
		return c, errors.New(text)
	}
	return c, c.Validate()
}

// Validate returns an error that names every mistake in the declaration.
func (c Config) Validate() error {
	var errs []error
	if c.Version != 1 {
		errs = append(errs, fmt.Errorf("version is %d: this program reads version 1", c.Version))
	}
	if problems := validation.IsDNS1123Label(c.Name); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("name %q: %s", c.Name, problems[0]))
	}
	check := func(field string, k Kind) {
		if _, err := schema.ParseGroupVersion(k.APIVersion); err != nil || k.APIVersion == "" || k.Kind == "" {
			errs = append(errs, fmt.Errorf("%s: apiVersion %q and kind %q do not name a kind, such as apps/v1 and Deployment",
				field, k.APIVersion, k.Kind))
		}
	}
	check("kind", c.Kind)
	for i, k := range c.Owns {
		check(fmt.Sprintf("owns[%d]", i), k.Kind)
	}
	for i, k := range c.Observes {
		check(fmt.Sprintf("observes[%d]", i), k)
	}
	for i, k := range c.References {
		check(fmt.Sprintf("references[%d]", i), k)
	}
	return errors.Join(errs...)
}

// finalizer returns the finalizer of the operator's objects.
func (c Config) finalizer() string { return "homeostat.dev/" + c.Name }

// owns reports whether a kind is one of children.
func (c Config) owns(k Kind) bool {
	return slices.ContainsFunc(c.Owns, func(o OwnedKind) bool { return o.Kind == k })
}

// gvk returns the kind in the form of package schema.
func (k Kind) gvk() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
}

// String returns for example "Deployment (apps/v1)".
func (k Kind) String() string { return fmt.Sprintf("%s (%s)", k.Kind, k.APIVersion) }
