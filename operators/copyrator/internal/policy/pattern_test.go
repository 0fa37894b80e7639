package policy_test

import (
	"math/rand/v2"
	"path"
	"testing"

	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/policy"
)

func TestPatterns(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string]map[string]bool{
		"a":          {"a": true, "": false, "aa": false},
		"*":          {"": true, "a": true, "a/b": true},
		"a*":         {"a": true, "ab": true, "ba": false},
		"*a":         {"a": true, "ba": true, "ab": false},
		"a*a":        {"aa": true, "aba": true, "a": false},
		"a?c":        {"abc": true, "ac": false, "abcd": false},
		"*b?d*":      {"abcde": true, "bbd": true, "abd": false},
		"helm.sh/*":  {"helm.sh/chart": true, "helm.sh": false},
		"**":         {"": true, "abc": true},
		"ab*bc":      {"abbc": true, "abc": false},
		"team-*-dev": {"team-a-dev": true, "team-dev": false},
	} {
		all := patterns(t, pattern)
		for name, want := range names {
			if got := all.Match(name); got != want {
				t.Errorf("%q matches %q: %v, want %v", pattern, name, got, want)
			}
		}
	}
	for _, invalid := range []string{"", "[a-z]", `a\*`, "a b", "ä"} {
		if _, err := policy.ParsePatterns([]string{invalid}); err == nil {
			t.Errorf("%q is accepted", invalid)
		}
	}
	if (policy.Pattern{}).Match("a") {
		t.Error("the zero value matches a name")
	}
}

// Patterns without slashes mean the same as in package path.
func TestPatternsMatchAsPath(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	text := func(characters string) string {
		b := make([]byte, random.IntN(8))
		for i := range b {
			b[i] = characters[random.IntN(len(characters))]
		}
		return string(b)
	}
	for range 20000 {
		pattern, name := "a"+text("ab*?"), text("ab")
		want, err := path.Match(pattern, name)
		if err != nil {
			t.Fatal(err)
		}
		if got := patterns(t, pattern).Match(name); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, name, got, want)
		}
	}
}
