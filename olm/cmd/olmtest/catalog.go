package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/olm"
)

// withoutVersion returns a copy of a catalog of one package without one version, as the catalog was before. It is nil if the
// default channel has no other version, so that there is nothing to upgrade from.
func withoutVersion(catalog *declcfg.DeclarativeConfig, csv string) *declcfg.DeclarativeConfig {
	former := *catalog
	former.Bundles = slices.DeleteFunc(slices.Clone(catalog.Bundles), func(b declcfg.Bundle) bool { return b.Name == csv })
	former.Channels = nil
	inDefault := false
	for _, c := range catalog.Channels {
		c.Entries = slices.DeleteFunc(slices.Clone(c.Entries), func(e declcfg.ChannelEntry) bool { return e.Name == csv })
		if len(c.Entries) > 0 {
			former.Channels = append(former.Channels, c)
			inDefault = inDefault || c.Name == catalog.Packages[0].DefaultChannel
		}
	}
	if !inDefault {
		return nil
	}
	return &former
}

// formerCatalog returns the catalog as it was before the current version, or nil if no upgrade is tested. The program of the
// current version also runs for the former bundle, so that the former bundle has to have what this program needs.
func (s *session) formerCatalog() (*declcfg.DeclarativeConfig, error) {
	former := withoutVersion(s.catalog, s.csvName())
	if former == nil {
		return nil, nil //nolint:nilnil // there is no upgrade
	}
	versions := olm.Versions(former)
	last := versions[len(versions)-1]
	i := slices.IndexFunc(former.Bundles, func(b declcfg.Bundle) bool { return b.Name == s.packageName()+".v"+last })
	dir, err := olm.BundlesIn(s.released, s.current)(former.Bundles[i].Image)
	if err != nil {
		return nil, err
	}
	before, err := readCSV(dir)
	if err != nil {
		return nil, err
	}
	now, err := readCSV(filepath.Join(s.current, s.name))
	if err != nil {
		return nil, err
	}
	if difference := differentNeeds(before, now); difference != "" {
		s.print("no upgrade from %s is tested: the program of %s runs with other %s", last, s.version, difference)
		return nil, nil //nolint:nilnil // there is no upgrade
	}
	return former, nil
}

// readCSV reads the ClusterServiceVersion of the bundle in a folder.
func readCSV(dir string) (*v1alpha1.ClusterServiceVersion, error) {
	files, err := filepath.Glob(filepath.Join(dir, "manifests", "*.clusterserviceversion.yaml"))
	if err != nil || len(files) != 1 {
		return nil, errors.Join(err, fmt.Errorf("%s has the ClusterServiceVersions %q, want one", dir, files))
	}
	data, err := os.ReadFile(files[0])
	csv := &v1alpha1.ClusterServiceVersion{}
	if err == nil {
		err = yaml.Unmarshal(data, csv)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", files[0], err)
	}
	return csv, nil
}

// differentNeeds returns the first difference of what a program needs from its bundle, or "".
func differentNeeds(before, now *v1alpha1.ClusterServiceVersion) string {
	of := func(csv *v1alpha1.ClusterServiceVersion) (definitions, arguments [][]string) {
		for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
			definitions = append(definitions, []string{owned.Name, owned.Version})
		}
		for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
			for _, c := range d.Spec.Template.Spec.Containers {
				arguments = append(arguments, c.Args)
			}
		}
		return definitions, arguments
	}
	definitionsBefore, argumentsBefore := of(before)
	definitions, arguments := of(now)
	former, install := before.Spec.InstallStrategy.StrategySpec, now.Spec.InstallStrategy.StrategySpec
	switch {
	case !equality.Semantic.DeepEqual(definitionsBefore, definitions):
		return "definitions"
	case !equality.Semantic.DeepEqual(former.Permissions, install.Permissions),
		!equality.Semantic.DeepEqual(former.ClusterPermissions, install.ClusterPermissions):
		return "permissions"
	case !equality.Semantic.DeepEqual(argumentsBefore, arguments):
		return "arguments"
	}
	return ""
}
