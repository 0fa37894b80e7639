package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLooksLikeDiff(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason, text string
		want         bool
	}{
		"go-cmp":      {"the output of go-cmp is a diff", cmp.Diff([]int{1, 2, 3, 4}, []int{1, 2, 4, 5}), true},
		"only less":   {"also with deletions only", block(cmp.Diff([]string{"a", "b"}, []string{"a"})), true},
		"unified":     {"the output of diff -u is a diff", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y", true},
		"heading":     {"a paragraph may have a heading", "step create:\n  a\n- b\n+ c\n\nstep delete:\n  a\n+ b", true},
		"YAML":        {"a manifest is not a diff", "kind: Pod\nspec:\n  containers:\n  - name: a", false},
		"list":        {"a list is not a diff", "- a\n- b", false},
		"nested list": {"nor is a list with items of several lines", "- a\n  b: c\n- d", false},
		"stack":       {"nor is a stack trace", "goroutine 1 [running]:\nmain.main()\n\t/main.go:3 +0x1d", false},
		"nothing":     {"an empty text is not a diff", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := looksLikeDiff(block(tc.text)); got != tc.want {
				t.Errorf("%s, but looksLikeDiff returns %v for\n%s", tc.reason, got, tc.text)
			}
		})
	}
}
