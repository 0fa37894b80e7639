package olm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/runner"
	"sigs.k8s.io/crdify/pkg/validations"
	"sigs.k8s.io/crdify/pkg/validations/property"
)

// CheckCompatible rejects a bundle with definitions that could make objects invalid that an older bundle accepted: a removed
// definition, a version that is no longer served, a changed type, a new required field, a narrower range. The bundles are
// folders. The rules and settings are those of OLM v1.11: descriptions may change, and enumerations may get further values.
// In addition, a version that is no longer served is rejected.
func CheckCompatible(older, newer string) error {
	before, err := definitions(older)
	if err != nil {
		return err
	}
	after, err := definitions(newer)
	if err != nil {
		return err
	}
	rules, err := runner.New(&config.Config{
		Conversion: config.ConversionPolicyIgnore, UnhandledEnforcement: config.EnforcementPolicyError,
		Validations: []config.ValidationConfig{
			{Name: "description", Enforcement: config.EnforcementPolicyNone},
			{
				Name: "enum", Enforcement: config.EnforcementPolicyError,
				Configuration: map[string]any{"additionPolicy": property.AdditionPolicyAllow},
			},
		},
	}, runner.DefaultRegistry())
	if err != nil {
		return fmt.Errorf("preparing to compare definitions: %w", err)
	}
	var problems []error
	for _, old := range before {
		at := slices.IndexFunc(after, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == old.Name })
		if at < 0 {
			problems = append(problems, fmt.Errorf("%s: the definition is gone, and with it would go all objects", old.Name))
			continue
		}
		for _, problem := range slices.Concat(unservedVersions(old, after[at]), differences(rules.Run(old, after[at]))) {
			problems = append(problems, fmt.Errorf("%s: %s", old.Name, problem))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("objects that are good in %s may not be in %s; add a version to the definition instead:\n%w",
			older, newer, errors.Join(problems...))
	}
	return nil
}

// CheckUpgrades rejects a catalog with an upgrade that [CheckCompatible] rejects, including upgrades from skipped versions.
// Bundles are found by their images, so the catalog must be a published one.
func CheckUpgrades(catalog *declcfg.DeclarativeConfig, find Bundles) error {
	dirs := map[string]string{}
	for _, b := range catalog.Bundles {
		dir, err := find(b.Image)
		if err != nil {
			return err
		}
		dirs[b.Name] = dir
	}
	for _, c := range catalog.Channels {
		for _, e := range c.Entries {
			for _, older := range replacedVersions(e) {
				if err := CheckCompatible(dirs[older], dirs[e.Name]); err != nil {
					return fmt.Errorf("channel %s: %w", c.Name, err)
				}
			}
		}
	}
	return nil
}

func definitions(dir string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	b, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the bundle in %s: %w", dir, err)
	}
	return b.V1CRDs, nil
}

// unservedVersions returns the versions that were served and are no longer. OLM does not check them.
func unservedVersions(old, now *apiextensionsv1.CustomResourceDefinition) []string {
	var all []string
	for _, v := range old.Spec.Versions {
		if v.Served && !slices.ContainsFunc(now.Spec.Versions, func(n apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return n.Name == v.Name && n.Served
		}) {
			all = append(all, v.Name+": it is no longer served")
		}
	}
	return all
}

// differences returns the errors, as VERSION FIELD: PROBLEM.
func differences(results *runner.Results) []string {
	var all []string
	add := func(where string, compared []validations.ComparisonResult) {
		for _, result := range compared {
			for _, text := range result.Errors {
				all = append(all, where+result.Name+": "+shorten(text))
			}
		}
	}
	add("", results.CRDValidation)
	for _, version := range slices.Concat(results.SameVersionValidation, results.ServedVersionValidation) {
		for _, field := range version.PropertyComparisons {
			add(version.Version+" "+field.Property+": ", field.ComparisonResults)
		}
	}
	return all
}

// shorten truncates a text, because it can contain two complete schemas.
func shorten(text string) string {
	const enough = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > enough {
		text = text[:enough] + "..."
	}
	return text
}
