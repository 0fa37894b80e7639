package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// checkHistory returns a sentence for each commit after since whose subject violates a rule. A shallow clone may lack
// since: the order of its commits is unknown then, and no subject is checked.
func checkHistory(root, since string) ([]string, error) {
	if !hasCommit(root, since) {
		return nil, nil
	}
	log := exec.Command("git", "-C", root, "log", "--no-merges", "--format=%h %s", since+"..HEAD")
	out, err := log.Output()
	if err != nil {
		return nil, fmt.Errorf("reading the commit subjects: %w", err)
	}
	var problems []string
	for line := range strings.Lines(string(out)) {
		hash, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		if problem := checkSubject(subject); problem != "" {
			problems = append(problems, fmt.Sprintf("commit %s %q: %s", hash, subject, problem))
		}
	}
	return problems, nil
}

// hasCommit reports whether the clone has the commit.
func hasCommit(root, commit string) bool {
	return exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run() == nil
}

// maxSubject is the length of a subject, in characters, that git and the forges show in full.
const maxSubject = 72

// form is "area: verb object"; several areas are separated by commas.
var form = regexp.MustCompile(`^[\w./*{},-]+(?:, [\w./*{}-]+)*: (\w[\w-]*) \S`)

// checkSubject returns a sentence that says how to repair the subject, or "".
func checkSubject(subject string) string {
	if strings.HasPrefix(subject, "Revert ") {
		return "" // as git writes it
	}
	found := form.FindStringSubmatch(subject)
	switch {
	case utf8.RuneCountInString(subject) > maxSubject:
		return fmt.Sprintf("is longer than %d characters: move the reason to the body", maxSubject)
	case found == nil:
		return `has not the form "area: verb object"`
	case !isImperative(found[1]):
		return fmt.Sprintf("%q is no imperative: begin with a verb such as add, move or rename", found[1])
	default:
		return ""
	}
}

// Words that begin a noun phrase or a clause, and endings that an imperative has only in these exceptions.
var (
	beginnings = strings.Fields("a an the what who which whose when where why how every each all no nothing none some any " +
		"one two three it its this that these those there more less only also not after before if as for in on of with without " +
		"and or but")
	endings    = []string{"ed", "ing", "s"}
	exceptions = strings.Fields("embed need feed exceed proceed succeed speed seed shed bring ping ring string pass process " +
		"focus access address bypass compress cross discuss dismiss express guess miss press suppress toss")
)

// isImperative reports whether the word can be an imperative. It knows no dictionary: it refuses only words that cannot.
func isImperative(word string) bool {
	word = strings.ToLower(word)
	if slices.Contains(exceptions, word) {
		return true
	}
	return !slices.Contains(beginnings, word) &&
		!slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(word, ending) })
}
