package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"text/template"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// Templates of the umbrella chart, in the syntax of an operator's templates.
//
//go:embed all:umbrella
var umbrellaFiles embed.FS

// umbrella returns a chart that contains other charts. The value NAME.enabled switches each of them on. The chart follows
// from the others, so it exists only in its archive.
func umbrella(name string, charts []*chart.Chart) (*chart.Chart, error) {
	first := charts[0].Metadata
	about := struct {
		Name, Version, AppVersion, KubeVersion string
		Charts                                 []*chart.Metadata
	}{name, first.Version, first.AppVersion, first.KubeVersion, nil}
	for _, c := range charts {
		if c.Name() == name {
			return nil, fmt.Errorf("the umbrella chart cannot be called %s, as one of those in it", name)
		}
		if err := makeSwitchable(c); err != nil {
			return nil, fmt.Errorf("chart %s: %w", c.Name(), err)
		}
		about.Charts = append(about.Charts, c.Metadata)
	}
	var files []*loader.BufferedFile
	err := fs.WalkDir(umbrellaFiles, "umbrella", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		t, err := template.New(file).Delims("<<", ">>").ParseFS(umbrellaFiles, file)
		if err != nil {
			return err
		}
		var content bytes.Buffer
		if err := t.ExecuteTemplate(&content, filepath.Base(file), about); err != nil {
			return err
		}
		inChart := strings.TrimSuffix(strings.TrimPrefix(file, "umbrella/"), ".tmpl")
		files = append(files, &loader.BufferedFile{Name: inChart, Data: content.Bytes()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("writing the umbrella chart: %w", err)
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("reading the umbrella chart: %w", err)
	}
	c.AddDependency(charts...)
	return c, nil
}

// makeSwitchable adds the value that an umbrella switches a chart on with to the chart's schema, which rejects unknown
// names.
func makeSwitchable(c *chart.Chart) error {
	var schema map[string]any
	if err := json.Unmarshal(c.Schema, &schema); err != nil {
		return fmt.Errorf("reading the schema of the values: %w", err)
	}
	properties, ok := schema["properties"].(map[string]any)
	if _, taken := properties["enabled"]; !ok || taken {
		return errors.New("the schema of the values has no room for the value enabled")
	}
	properties["enabled"] = map[string]any{"type": "boolean"}
	data, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the schema of the values: %w", err)
	}
	c.Schema = data
	return nil
}
