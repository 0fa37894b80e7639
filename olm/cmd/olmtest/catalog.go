package main

import (
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
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
