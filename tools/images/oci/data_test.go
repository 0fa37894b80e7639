package oci_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// A Recipe equals its Dockerfile, and rejects all other instructions.
func TestRecipe(t *testing.T) {
	t.Parallel()
	const good = "FROM scratch\n\n# it has\nLABEL a.b=c/\nCOPY manifests /manifests/\n"
	for name, c := range map[string]struct{ text, want string }{
		"good":           {good, ""},
		"a program":      {good + "RUN x\n", `Dockerfile:6: "RUN x"`},
		"another base":   {strings.Replace(good, "scratch", "other", 1), `Dockerfile:1: "FROM other"`},
		"nothing in it":  {"FROM scratch\nLABEL a=b\n", "labels or copies nothing"},
		"not labeled":    {"FROM scratch\nCOPY a /a\n", "labels or copies nothing"},
		"a label of two": {good + "LABEL a=b c=d\n", `"LABEL a=b c=d"`},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "Dockerfile")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := oci.ReadRecipe(file)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			continue
		}
		want := oci.Recipe{Labels: map[string]string{"a.b": "c/"}, Folders: map[string]string{"manifests": "/manifests/"}}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, -want +got:\n%s", name, err, diff)
		}
		if _, err := got.Make(dir); err == nil {
			t.Error("a folder that is not there is copied")
		}
	}
}
