package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

const planFile = "release.json"

// A plan is the output of a rehearsal for publish: the artifacts and their destinations.
type plan struct {
	Version    string   `json:"version"`
	Repository string   `json:"repository"`
	Base       string   `json:"base"`   // the commit being released
	Commit     string   `json:"commit"` // its child, with the published go.mod files
	Prefix     string   `json:"prefix"` // the prefix of all image names
	Modules    []string `json:"modules"`
	Tags       []tag    `json:"tags"` // in dependency order
	Images     []image  `json:"images"`
	Charts     []file   `json:"charts"`
	Files      []file   `json:"files"` // of the release's page, where they are in one folder
}

type tag struct {
	Name   string `json:"name"`
	Commit string `json:"commit"`
}

type image struct {
	Name   string   `json:"name"`
	Tags   []string `json:"tags"`
	Digest string   `json:"digest"`
	Folder string   `json:"folder"` // in the OCI layout
}

type file struct {
	Name string `json:"name"` // below the folder
	Size int64  `json:"size"`
}

func (p *plan) write(folder string) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, planFile), append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing what goes where: %w", err)
	}
	return nil
}

func readPlan(folder string) (*plan, error) {
	data, err := os.ReadFile(filepath.Join(folder, planFile))
	p := &plan{}
	if err == nil {
		err = json.Unmarshal(data, p)
	}
	if err != nil {
		return nil, fmt.Errorf("%s has no rehearsal that came to its end: run make release-dry-run first: %w", folder, err)
	}
	return p, nil
}

// print writes a table of the artifacts and their destinations.
func (p *plan) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nVersion %s of %s, from commit %.12s; nothing is published yet.\n", p.Version, p.Repository, p.Base)
	fmt.Fprintln(w, "\nTAG\tCOMMIT")
	for _, t := range p.Tags {
		fmt.Fprintf(w, "%s\t%.12s\n", t.Name, t.Commit)
	}
	fmt.Fprintln(w, "\nIMAGE\tTAGS\tDIGEST")
	for _, i := range p.Images {
		fmt.Fprintf(w, "%s%s\t%s\t%s\n", p.Prefix, i.Name, strings.Join(i.Tags, ", "), i.Digest)
	}
	fmt.Fprintln(w, "\nCHART\tFROM\tBYTES")
	for _, c := range p.Charts {
		fmt.Fprintf(w, "%s\t%s\t%d\n", p.chartRef(c), c.Name, c.Size)
	}
	fmt.Fprintln(w, "\nFILE\tBYTES")
	for _, f := range p.Files {
		fmt.Fprintf(w, "%s\t%d\n", f.Name, f.Size)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing what would be published: %w", err)
	}
	return nil
}

// chartPrefix returns the prefix of chart names. It differs from that of images, because both are named after the operators.
func (p *plan) chartPrefix() string { return p.Prefix + "charts/" }

// chartRef returns the name of a chart in the registry, with the version.
func (p *plan) chartRef(c file) string {
	return p.chartPrefix() + strings.TrimSuffix(filepath.Base(c.Name), "-"+p.Version+".tgz") + ":" + p.Version
}

// moves reports whether an image tag moves to another image with the next release, as latest does.
func (p *plan) moves(tag string) bool { return strings.TrimPrefix(tag, "v") != p.Version }

// dropMovingTags removes the moving tags from the plan, so that they keep their images.
func (p *plan) dropMovingTags() {
	for i := range p.Images {
		p.Images[i].Tags = slices.DeleteFunc(p.Images[i].Tags, p.moves)
	}
}
