package policy

import (
	"fmt"
	"strings"
)

// Pattern is a name in which * stands for any number of characters and ? for one. The zero value matches only the empty
// name.
type Pattern struct {
	parts []string // the literal parts between the stars
}

// maxPatterns is the maximum number of patterns of an annotation, and maxPatternLength that of the characters in one. The
// schema of a rule has the same limits. What exceeds them grants and refuses nothing.
const (
	maxPatterns      = 64
	maxPatternLength = 317
)

// parsePattern parses a pattern. The error names the permitted characters.
func parsePattern(text string) (Pattern, error) {
	if text == "" || len(text) > maxPatternLength || strings.Trim(text, patternCharacters) != "" {
		return Pattern{}, fmt.Errorf("%q is no pattern: use letters, digits, dashes, dots, underscores, slashes, * and ?", text)
	}
	return Pattern{strings.Split(text, "*")}, nil
}

const patternCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/*?"

// Match reports whether the name matches the pattern. Its time is linear in the length of the name for patterns without ?.
func (p Pattern) Match(name string) bool {
	if len(p.parts) == 0 {
		return name == ""
	}
	first, last := p.parts[0], p.parts[len(p.parts)-1]
	if len(p.parts) == 1 {
		return len(name) == len(first) && startsWith(name, first)
	}
	if !startsWith(name, first) {
		return false
	}
	name = name[len(first):]
	for _, part := range p.parts[1 : len(p.parts)-1] {
		at := index(name, part)
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return len(name) >= len(last) && startsWith(name[len(name)-len(last):], last)
}

// startsWith reports whether the name starts with the part, in which ? stands for any character.
func startsWith(name, part string) bool {
	if len(name) < len(part) {
		return false
	}
	for i := range len(part) {
		if part[i] != '?' && part[i] != name[i] {
			return false
		}
	}
	return true
}

// index returns the index of the first occurrence of the part in the name, -1 if there is none.
func index(name, part string) int {
	if !strings.Contains(part, "?") {
		return strings.Index(name, part)
	}
	for i := 0; i+len(part) <= len(name); i++ {
		if startsWith(name[i:], part) {
			return i
		}
	}
	return -1
}

// Patterns are alternatives: a name matches them if it matches one.
type Patterns []Pattern

// ParsePatterns parses patterns. The error is that of the first invalid one.
func ParsePatterns(texts []string) (Patterns, error) {
	all := make(Patterns, 0, len(texts))
	for _, text := range texts {
		p, err := parsePattern(text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// parseList parses the comma-separated patterns of an annotation. Invalid ones, and those beyond the limits, are left out.
func parseList(value string) Patterns {
	var all Patterns
	for item := range strings.SplitSeq(value, ",") {
		if p, err := parsePattern(strings.TrimSpace(item)); err == nil && len(all) < maxPatterns {
			all = append(all, p)
		}
	}
	return all
}

// Match reports whether the name matches one of the patterns.
func (all Patterns) Match(name string) bool {
	for _, p := range all {
		if p.Match(name) {
			return true
		}
	}
	return false
}
