package main

import (
	"fmt"
	"go/ast"
	"io/fs"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	pronoun  = regexp.MustCompile(`(?i)\b(who|what|which|whose|whoever|whatever)\b`)
	sentence = regexp.MustCompile(`[.;:!?](\s|$)`)
	nolint   = regexp.MustCompile(`^//\s*nolint:([\w,-]+)`)
)

// directives reports the //nolint directives without effect. The linter nolintlint reports those of enabled linters only.
func (c *checker) directives(group *ast.CommentGroup) {
	for _, comment := range group.List {
		found := nolint.FindStringSubmatch(comment.Text)
		if found == nil {
			continue
		}
		for name := range strings.SplitSeq(found[1], ",") {
			if c.disabled[name] {
				c.report(comment.Pos(), fmt.Sprintf("//nolint:%s names a linter that .golangci.yml disables: delete it", name))
			}
		}
	}
}

// minWords is how many words make a sentence; less is a heading or the end of a list.
const minWords = 3

// count adds the sentences of a comment to the share of those with a pronoun.
func (c *checker) count(name, comment string) {
	for _, part := range sentence.Split(comment, -1) {
		if len(strings.Fields(part)) < minWords {
			continue
		}
		c.sentences++
		if pronoun.MatchString(part) {
			c.pronouns[name]++
		}
	}
}

// disabledLinters returns the names in linters.disable of .golangci.yml.
func disabledLinters(fsys fs.FS) (map[string]bool, error) {
	const file = ".golangci.yml"
	source, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil, fmt.Errorf("reading the disabled linters: %w", err)
	}
	var config struct {
		Linters struct {
			Disable []string `yaml:"disable"`
		} `yaml:"linters"`
	}
	if err := yaml.Unmarshal(source, &config); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", file, err)
	}
	disabled := map[string]bool{}
	for _, name := range config.Linters.Disable {
		disabled[name] = true
	}
	return disabled, nil
}
