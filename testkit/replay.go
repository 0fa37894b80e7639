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

// replay returns the command that repeats this test alone, with the same flags.
func replay(test string) string {
	pattern := make([]string, 0, 2)
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
	flag.Visit(func(f *flag.Flag) { // includes the seeds
		if !strings.HasPrefix(f.Name, "test.") && f.Name != updateFlag {
			words = append(words, "-"+f.Name+"="+quote(f.Value.String()))
		}
	})
	return strings.Join(words, " ")
}

// updateFlag writes golden files. A command that repeats a failure must not contain it.
const updateFlag = "update"

var plainWord = regexp.MustCompile(`^[\w./:=@%+-]+$`)

// quote quotes a word for the shell, if necessary.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
