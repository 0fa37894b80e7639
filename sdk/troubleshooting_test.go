package sdk

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var reasonPattern = regexp.MustCompile(`(?:[rR]eason\w*\s*(?::|:?=)\s*|` +
	`(?:Wait|Invalid|MarkRetrying|MarkReconciling)\((?:[\w.]+, )?|ConditionTrue, )"([A-Z][a-zA-Z]+)"`)

// docs/troubleshooting.md explains each reason that the SDK gives.
func TestTroubleshootingHasEveryReason(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for path, source := range sources(t) {
		for _, m := range reasonPattern.FindAllSubmatch(source, -1) {
			found++
			switch reason := string(m[1]); {
			case reason == "Deleting" || reason == "Ready" || reason == "Failed":
			case !strings.Contains(string(document), "`"+reason+"`"):
				t.Errorf("%s: the document does not explain the reason %s", path, reason)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d reasons were found", found)
	}
}

// sources returns the Go files of this package and of those below internal, by path, without tests.
func sources(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && path != "internal" && !strings.HasPrefix(path, "internal/"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			all[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
