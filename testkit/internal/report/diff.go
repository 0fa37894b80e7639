package report

import "strings"

// Classes of the lines of a diff. They are also classes of the page's style sheet.
const (
	added   = "add"
	removed = "del"
	same    = "same"
)

// looksLikeDiff reports whether each line of a text has the prefix of a diff. A paragraph may have a heading. Only
// colors depend on it.
func looksLikeDiff(s string) bool {
	seen, first, heading := map[string]bool{}, "", true
	for line := range strings.Lines(s) {
		class := diffClass(line)
		switch {
		case strings.TrimSpace(line) == "":
			heading = true
			continue
		case class == "" && !heading:
			return false
		case class != "" && first == "":
			first = class
		}
		heading = false
		seen[class] = true
	}
	// A text without a plus that begins with a dash is a list.
	return seen[added] || seen[removed] && first == same
}

// diffClass returns the class of a line, or "" if it is not part of a diff.
func diffClass(line string) string {
	switch {
	case line == "":
		return ""
	case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "..."):
		return same
	case line[0] == '+':
		return added
	case line[0] == '-':
		return removed
	case line[0] == ' ', line[0] == '\t', line[0] == '@':
		return same
	default:
		return ""
	}
}
