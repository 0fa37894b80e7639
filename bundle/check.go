package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A Problem is an error in a bundle, or a warning of a validator.
type Problem struct {
	Rule    string // a validator of operator-framework, "scorecard", "olm-v1" or "images"
	Message string
}

func (p Problem) String() string { return p.Rule + ": " + p.Message }

// Check returns the problems of the bundle in a folder. It runs the validators of operator-sdk, of the community's pipelines
// and of OperatorHub that need no container; the checks of operator-sdk's scorecard; and the restrictions of OLM v1. It also
// reports images without a digest. Warnings count as problems. An error means that the folder is not a bundle.
func Check(dir string) ([]Problem, error) {
	for _, folder := range []string{manifestsFolder, metadataFolder} {
		if info, err := os.Stat(filepath.Join(dir, folder)); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%s is no bundle: it has no folder %s", dir, folder)
		}
	}
	b, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the bundle in %s: %w", dir, err)
	}
	if b.CSV == nil {
		return nil, fmt.Errorf("the bundle in %s has no ClusterServiceVersion", dir)
	}
	problems := slices.Concat(validate(b), checkScorecard(b), checkV1(b), checkImages(b))
	slices.SortFunc(problems, func(x, y Problem) int {
		return cmp.Or(strings.Compare(x.Rule, y.Rule), strings.Compare(x.Message, y.Message))
	})
	return slices.Compact(problems), nil
}

// validate runs the validators of operator-framework.
func validate(b *manifests.Bundle) []Problem {
	objects := b.ObjectsToValidate()
	for _, o := range b.Objects {
		objects = append(objects, o)
	}
	objects = append(objects, map[string]string{"k8s-version": strings.TrimSuffix(b.CSV.Spec.MinKubeVersion, ".0")})
	var all []Problem
	for rule, validators := range map[string]interfaces.Validators{
		"default":               validation.DefaultBundleValidators,
		"good-practices":        {validation.GoodPracticesValidator},
		"operatorhubv2":         {validation.OperatorHubV2Validator},
		"capabilities":          {validation.StandardCapabilitiesValidator},
		"categories":            {validation.StandardCategoriesValidator},
		"alpha-deprecated-apis": {validation.AlphaDeprecatedAPIsValidator},
		"object":                {validation.ObjectValidator},
	} {
		for _, result := range validators.Validate(objects...) {
			for _, e := range slices.Concat(result.Errors, result.Warnings) {
				all = append(all, Problem{rule, withoutObject(e.Error())})
			}
		}
	}
	return all
}

// withoutObject returns a message without the object that some validators print in it.
func withoutObject(message string) string {
	const enough = 400
	if line, _, _ := strings.Cut(message, "\n"); len(line) > enough {
		return strings.ToValidUTF8(line[:enough], "") + "..."
	}
	return message
}

// checkScorecard does the checks of operator-sdk's six tests, which need a cluster to run in.
func checkScorecard(b *manifests.Bundle) []Problem {
	var all []Problem
	addError := func(format string, args ...any) {
		all = append(all, Problem{"scorecard", fmt.Sprintf(format, args...)})
	}
	examples, err := examplesOf(b)
	if err != nil {
		addError("olm-bundle-validation: alm-examples: %v", err)
	}
	for _, crd := range b.V1CRDs {
		checkSchemas(crd, examples[crd.Spec.Names.Kind], addError)
	}
	for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		if len(owned.Resources) == 0 {
			addError("olm-crds-have-resources: %s names no resources", owned.Name)
		}
		for _, e := range examples[owned.Kind] {
			if e.GroupVersionKind().Version != owned.Version {
				continue
			}
			for part, described := range descriptions(&owned) {
				fields, _, _ := unstructured.NestedMap(e.Object, part)
				for field := range fields {
					if !described[field] {
						addError("olm-%s-descriptors: %s of %s is not described", part, field, owned.Name)
					}
				}
			}
		}
	}
	return all
}

// checkSchemas reports definitions without a schema, and examples without a spec if their version has one.
func checkSchemas(
	crd *apiextensionsv1.CustomResourceDefinition, examples []unstructured.Unstructured,
	addError func(format string, args ...any),
) {
	for _, version := range crd.Spec.Versions {
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil || len(version.Schema.OpenAPIV3Schema.Properties) == 0 {
			addError("olm-crds-have-validation: %s %s has no schema", crd.Name, version.Name)
			continue
		}
		_, hasSpec := version.Schema.OpenAPIV3Schema.Properties["spec"]
		for _, e := range examples {
			if hasSpec && e.GroupVersionKind().Version == version.Name && e.Object["spec"] == nil {
				addError("basic-check-spec: the example %s has no spec", e.GetName())
			}
		}
	}
}

// examplesOf returns the samples in the annotation, by kind.
func examplesOf(b *manifests.Bundle) (map[string][]unstructured.Unstructured, error) {
	all := map[string][]unstructured.Unstructured{}
	text := b.CSV.Annotations["alm-examples"]
	if text == "" {
		return all, nil
	}
	var objects []map[string]any
	if err := decode(text, &objects); err != nil {
		return nil, err
	}
	for _, o := range objects {
		e := unstructured.Unstructured{Object: o}
		all[e.GetKind()] = append(all[e.GetKind()], e)
	}
	return all, nil
}

// descriptions returns the described fields, by the part of the object that contains them.
func descriptions(owned *v1alpha1.CRDDescription) map[string]map[string]bool {
	spec, status := map[string]bool{}, map[string]bool{}
	for _, d := range owned.SpecDescriptors {
		spec[d.Path] = true
	}
	for _, d := range owned.StatusDescriptors {
		status[d.Path] = true
	}
	return map[string]map[string]bool{"spec": spec, "status": status}
}

// supported lists the kinds that both OLM v0 and v1 install.
var supported = []string{
	v1alpha1.ClusterServiceVersionKind, kindDefinition, "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service",
	"ConfigMap", "Secret", "PodDisruptionBudget", "PriorityClass", "PrometheusRule", "ServiceMonitor",
}

// checkV1 reports violations of the restrictions of OLM v1. OLM itself reports them only in the cluster.
func checkV1(b *manifests.Bundle) []Problem {
	var all []Problem
	addError := func(format string, args ...any) { all = append(all, Problem{"olm-v1", fmt.Sprintf(format, args...)}) }
	spec := &b.CSV.Spec
	everywhere := slices.ContainsFunc(spec.InstallModes, func(m v1alpha1.InstallMode) bool {
		return m.Type == v1alpha1.InstallModeTypeAllNamespaces && m.Supported
	})
	if !everywhere {
		addError("the install mode AllNamespaces is not supported")
	}
	if len(spec.APIServiceDefinitions.Owned)+len(spec.APIServiceDefinitions.Required) > 0 {
		addError("it has an API service")
	}
	if len(spec.CustomResourceDefinitions.Required) > 0 || len(b.Dependencies) > 0 {
		addError("it depends on another package")
	}
	checkWebhooks(b, addError)
	names := map[string]bool{}
	for _, d := range spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		if names[d.Name] || d.Name == "" {
			addError("two Deployments have the name %q", d.Name)
		}
		names[d.Name] = true
	}
	definitions := map[string]bool{}
	for _, crd := range b.V1CRDs {
		definitions[crd.Name] = true
	}
	for _, owned := range spec.CustomResourceDefinitions.Owned {
		if !definitions[owned.Name] {
			addError("the definition of %s is missing, which it owns", owned.Name)
		}
	}
	for _, o := range b.Objects {
		if !slices.Contains(supported, o.GetKind()) {
			addError("%s %s is of a kind that not every version of OLM installs", o.GetKind(), o.GetName())
		}
	}
	return all
}

// checkImages reports images that are not named by digest, and images missing in the list that mirrors copy.
func checkImages(b *manifests.Bundle) []Problem {
	var errs []error
	related := map[string]bool{}
	for _, image := range b.CSV.Spec.RelatedImages {
		errs = append(errs, checkDigest(image.Image))
		related[image.Image] = true
	}
	for _, d := range b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for _, c := range slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers) {
			if err := checkDigest(c.Image); err != nil {
				errs = append(errs, fmt.Errorf("container %s: %w", c.Name, err))
			} else if !related[c.Image] {
				errs = append(errs, fmt.Errorf("container %s: image %s is missing in spec.relatedImages", c.Name, c.Image))
			}
		}
	}
	if image := b.CSV.Annotations["containerImage"]; !related[image] {
		errs = append(errs, errors.New("the annotation containerImage names no image of spec.relatedImages"))
	}
	var all []Problem
	for _, err := range errs {
		if err != nil {
			all = append(all, Problem{"images", err.Error()})
		}
	}
	return all
}

// Version returns the version of the bundle in a folder, such as 0.2.0.
func Version(dir string) (string, error) {
	b, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		return "", fmt.Errorf("reading the bundle in %s: %w", dir, err)
	}
	if b.CSV == nil {
		return "", fmt.Errorf("the bundle in %s has no ClusterServiceVersion", dir)
	}
	return b.CSV.Spec.Version.String(), nil
}
