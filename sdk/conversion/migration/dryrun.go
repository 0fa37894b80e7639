package migration

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DryRun prints, for each kind, whether stored objects would be rewritten, and in which version. It writes nothing. It is
// the DryRun of a program.CustomController. It does not count the objects: the API server does not tell their stored
// versions.
func (m *Migrator) DryRun(ctx context.Context, cfg *rest.Config, _ []string, out io.Writer) error {
	if err := m.validate(); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("storage migration: %w", err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("storage migration: %w", err)
	}
	for _, name := range m.CRDs {
		var found apiextensionsv1.CustomResourceDefinitionList // the migrator has no right to get it
		if err := c.List(ctx, &found, client.MatchingFields{metav1.ObjectNameField: name}); err != nil {
			return fmt.Errorf("storage migration of %s: %w", name, err)
		}
		if len(found.Items) == 0 {
			return fmt.Errorf("storage migration of %s: there is no such CustomResourceDefinition: apply it first", name)
		}
		crd := &found.Items[0]
		storage := storageVersion(crd)
		old := slices.DeleteFunc(slices.Clone(crd.Status.StoredVersions), func(v string) bool { return v == storage })
		text := "nothing would be rewritten: all objects are stored in " + storage
		if len(old) > 0 {
			text = fmt.Sprintf("objects that are stored in %s would be rewritten in %s", strings.Join(old, ", "), storage)
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", name, text); err != nil {
			return err
		}
	}
	return nil
}
