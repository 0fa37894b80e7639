package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// document is the part of a Markdown file that linkcheck needs.
type document struct {
	links   []string
	anchors map[string]bool
}

// check returns a sentence for each broken link, and an error if the files cannot be read.
func check(fsys fs.FS) ([]string, error) {
	docs, err := read(fsys)
	if err != nil {
		return nil, fmt.Errorf("reading the Markdown files: %w", err)
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		for _, link := range docs[name].links {
			if err := follow(fsys, docs, name, link); err != nil {
				problems = append(problems, fmt.Sprintf("%s: link to %s: %v", name, link, err))
			}
		}
	}
	return problems, nil
}

// read parses the Markdown files, by name. It skips build output, and test fixtures with intentionally broken links.
func read(fsys fs.FS) (map[string]*document, error) {
	docs := map[string]*document{}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "build" || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		source, err := fs.ReadFile(fsys, name)
		if err == nil {
			docs[name] = parse(source)
		}
		return err
	})
	return docs, err
}

// follow returns the reason why the link is broken, or nil.
func follow(fsys fs.FS, docs map[string]*document, from, link string) error {
	target, err := url.Parse(link)
	if err != nil {
		return errors.New("not a URL")
	}
	if target.Scheme != "" || target.Host != "" {
		return nil
	}
	name := from
	if target.Path != "" {
		name = path.Join(path.Dir(from), target.Path)
	}
	if !fs.ValidPath(name) {
		return errors.New("leaves the repository")
	}
	if _, err := fs.Stat(fsys, name); err != nil {
		return fmt.Errorf("there is no %s", name)
	}
	if doc, ok := docs[name]; ok && target.Fragment != "" && !doc.anchors[target.Fragment] {
		return fmt.Errorf("%s has no heading #%s", name, target.Fragment)
	}
	return nil
}

func parse(source []byte) *document {
	doc := &document{anchors: map[string]bool{}}
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	// The walk cannot fail: the visitor never returns an error.
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Link:
			doc.links = append(doc.links, string(node.Destination))
		case *ast.Image:
			doc.links = append(doc.links, string(node.Destination))
		case *ast.Heading:
			doc.addAnchor(slug(plain(node, source)))
		}
		return ast.WalkContinue, nil
	})
	return doc
}

// addAnchor numbers headings of the same text as GitHub does: title, title-1, title-2.
func (d *document) addAnchor(anchor string) {
	unique := anchor
	for n := 1; d.anchors[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", anchor, n)
	}
	d.anchors[unique] = true
}

// slug is the anchor that GitHub gives a heading: lower case, spaces to hyphens, other punctuation dropped.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// plain is the text of a heading without its markup.
func plain(node ast.Node, source []byte) string {
	var b bytes.Buffer
	_ = ast.Walk(node, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := node.(*ast.Text); ok && entering {
			b.Write(t.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}
