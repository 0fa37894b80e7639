// Package runname makes the names of the namespaces of tests and runs. Each such name has a unique part, so that processes
// that share a control plane recognize each other's objects by their names, before the objects exist.
package runname

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// maxPrefix leaves room for suffixes in names that operators derive from a namespace.
const maxPrefix = 36

// unique matches the unique part of a name.
var unique = regexp.MustCompile(`-run-[0-9a-f]{8}`)

// New returns a readable and unique name of a namespace, derived from the name of a test or a plan.
func New(of string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(of) {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			b.WriteRune(r)
		} else {
			b.WriteByte('-')
		}
	}
	name := b.String()
	if len(name) > maxPrefix {
		name = name[:maxPrefix]
	}
	return fmt.Sprintf("%s-run-%08x", strings.Trim(name, "-"), rand.Uint32())
}

// IsOfAnother reports whether a name contains the name of a run, and none of them is that of the run with this namespace.
func IsOfAnother(name, namespace string) bool {
	of := unique.FindAllString(name, -1)
	own := unique.FindString(namespace)
	return len(of) > 0 && !slices.Contains(of, own)
}

// Further returns the name of a further namespace of a run, and the namespace of the run itself if of is empty.
func Further(namespace, of string) string {
	if of == "" {
		return namespace
	}
	return namespace + "-" + of
}

// MaxFurther is the maximum length of the name of a further namespace, without the namespace of the run.
const MaxFurther = 13

// placeholder matches {namespace} and, for example, {namespace:team-a}.
var placeholder = regexp.MustCompile(`\{namespace(?::([^{}]*))?\}`)

// Expand replaces {namespace} by the namespace of a run, and {namespace:NAME} by a further one.
func Expand(text, namespace string) string {
	if !strings.Contains(text, "{namespace") {
		return text
	}
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		return Further(namespace, placeholder.FindStringSubmatch(found)[1])
	})
}

// Mentioned returns the names of the further namespaces in a text.
func Mentioned(text string) []string {
	var names []string
	for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
		if found[1] != "" {
			names = append(names, found[1])
		}
	}
	return names
}
