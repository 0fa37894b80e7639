package main

import (
	"fmt"
	"os"
	"path/filepath"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

// pack writes the archive of an operator's chart into a folder, which it makes if there is none, and returns its name. A
// version that is not empty is that of the chart and of the image that it installs by default.
func pack(dir, folder, version string) (string, error) {
	c, err := loader.LoadDir(filepath.Join(dir, "chart"))
	if err != nil {
		return "", fmt.Errorf("reading the chart: %w", err)
	}
	if version != "" {
		c.Metadata.Version, c.Metadata.AppVersion = version, version
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("making a folder for the archive: %w", err)
	}
	file, err := chartutil.Save(c, folder)
	if err != nil {
		return "", fmt.Errorf("writing the archive: %w", err)
	}
	return file, nil
}
