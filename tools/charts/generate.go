package main

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// Templates of a chart's files. Actions between << and >> are for this program; {{ and }} are for Helm.
//
//go:embed all:template
var files embed.FS

const root = "template"

// generate regenerates the chart of the operator in a folder from its config. Without a name the chart has that of the
// folder. The path is that of the chart in its texts.
func generate(dir, name, path string) error {
	config, err := read(dir, name)
	if err != nil {
		return err
	}
	config.Path = cmp.Or(path, "operators/"+config.Name+"/chart")
	chart := filepath.Join(dir, "chart")
	if err := os.RemoveAll(chart); err != nil {
		return fmt.Errorf("removing the old chart: %w", err)
	}
	return fs.WalkDir(files, root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := config.render(name)
		if err != nil {
			return fmt.Errorf("rendering %s: %w", name, err)
		}
		if len(bytes.TrimSpace(content)) == 0 {
			return nil // the file is for a feature that this operator does not have
		}
		name = strings.TrimSuffix(strings.TrimPrefix(name, root), ".tmpl") // the suffix hides links of the chart from linkcheck
		file := filepath.Join(chart, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("writing the chart: %w", err)
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return fmt.Errorf("writing the chart: %w", err)
		}
		return nil
	})
}

// render executes one of the templates.
func (c *config) render(name string) ([]byte, error) {
	functions := template.FuncMap{
		"yaml": indented, "quote": quote, "object": c.object, "crd": c.definition, "policy": c.networkPolicy,
		"join": func(args []string) string { return strings.Join(args, " ") },
	}
	t, err := template.New(name).Delims("<<", ">>").Funcs(functions).ParseFS(files, name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, filepath.Base(name), c); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
