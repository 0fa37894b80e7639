package testkit

import (
	"flag"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// replay is the command that runs a test again, and no other, the way it has run.
func replay(test string) string {
	pattern := make([]string, 0, 2) //nolint:mnd // a test and perhaps a subtest
	for part := range strings.SplitSeq(test, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	words := []string{"go", "test", "-run", quote(strings.Join(pattern, "/")), "-count", "1"}
	if at := os.Getenv(existingVariable); at != "" {
		words = slices.Insert(words, 0, existingVariable+"="+quote(at))
	}
	where := "."
	if info, ok := debug.ReadBuildInfo(); ok {
		where = strings.TrimSuffix(info.Path, ".test")
		for _, s := range info.Settings {
			switch {
			case s.Key == "-race" && s.Value == "true":
				words = append(words, "-race")
			case s.Key == "-tags" && s.Value != "":
				words = append(words, "-tags", s.Value)
			}
		}
	}
	if testing.Short() {
		words = append(words, "-short")
	}
	words = append(words, where)
	flag.Visit(func(f *flag.Flag) { // the seeds among others
		if !strings.HasPrefix(f.Name, "test.") && f.Name != updateFlag {
			words = append(words, "-"+f.Name+"="+quote(f.Value.String()))
		}
	})
	return strings.Join(words, " ")
}

// updateFlag has golden files written. It has no place in a command that shows a failure again.
const updateFlag = "update"

var plainWord = regexp.MustCompile(`^[\w./:=@%+-]+$`)

// quote writes a word so that a shell reads it as it is.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
