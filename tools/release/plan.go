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

// A plan is what a rehearsal leaves for publish: what goes where.
type plan struct {
	Version    string   `json:"version"`
	Repository string   `json:"repository"`
	Base       string   `json:"base"`   // the commit that is released
	Commit     string   `json:"commit"` // its child, with the modules as they are published
	Prefix     string   `json:"prefix"` // what the names of all images begin with
	Modules    []string `json:"modules"`
	Tags       []tag    `json:"tags"` // in the order of what requires what
	Images     []image  `json:"images"`
	Charts     []file   `json:"charts"`
	Files      []file   `json:"files"` // for the page of the release, where they are in one folder
}

type tag struct {
	Name   string `json:"name"`
	Commit string `json:"commit"`
}

type image struct {
	Name   string   `json:"name"`
	Tags   []string `json:"tags"`
	Digest string   `json:"digest"`
	Folder string   `json:"folder"` // its layout
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

// print writes a table of what would be published, where.
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

// chartPrefix is what the names of charts begin with, which are not images and whose names are those of the operators, too.
func (p *plan) chartPrefix() string { return p.Prefix + "charts/" }

// chartRef is the name that a chart has in the registry, with the version.
func (p *plan) chartRef(c file) string {
	return p.chartPrefix() + strings.TrimSuffix(filepath.Base(c.Name), "-"+p.Version+".tgz") + ":" + p.Version
}

// moves says whether a tag of an image names another one with the next release, as latest does.
func (p *plan) moves(tag string) bool { return strings.TrimPrefix(tag, "v") != p.Version }

// stay leaves the tags that move to whatever has them.
func (p *plan) stay() {
	for i := range p.Images {
		p.Images[i].Tags = slices.DeleteFunc(p.Images[i].Tags, p.moves)
	}
}
