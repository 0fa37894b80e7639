package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkError expects an error that contains want, or none.
func checkError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want %q", what, err, want)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	tags := []string{"v0.1.0", "sdk/v0.2.0", "v0.3.0", "testkit/v0.3.0-rc.1", "nightly"}
	for version, want := range map[string]string{
		"0.3.1": "", "0.4.0-rc.1": "", "1.0.0": "", "0.3.0": "",
		"": "there is no version: say which, as VERSION=1.2.3", "1.2": "write it as 1.2.3", "v1.2.3": "write it as 1.2.3",
		"1.2.3+dirty": "write it as 1.2.3", "latest": "write it as 1.2.3",
		"0.2.9":      "version 0.2.9 is not greater than 0.3.0, which the tag v0.3.0 has released",
		"0.3.0-rc.2": "not greater than 0.3.0",
	} {
		err := checkVersion(version, tags, func(tag string) bool { return tag == "v0.3.0" }) // at the commit being released
		checkError(t, "version "+version, err, want)
	}
	never := func(string) bool { return false }
	checkError(t, "a tag elsewhere", checkVersion("0.3.0", []string{"v0.3.0"}, never), "the tag v0.3.0 has released")
	always := func(string) bool { return true }
	checkError(t, "a module's tag", checkVersion("0.3.0", []string{"sdk/v0.3.0"}, always), "the tag sdk/v0.3.0 has released")
}

func TestSection(t *testing.T) {
	t.Parallel()
	const changelog = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-23\n\nMore.\n\n### Added\n\n- `x`\n\n" +
		"## [0.1.0] - 2026-01-01\n\nFirst.\n\n[0.1.0]: https://example.com/\n"
	for version, want := range map[string]string{"0.2.0": "More.\n\n### Added\n\n- `x`\n", "0.1.0": "First.\n"} {
		if got, err := section(changelog, version); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", version, got, err, want)
		}
	}
	for _, version := range []string{"0.3.0", "Unreleased", "0.1"} {
		_, err := section(changelog, version)
		checkError(t, version, err, "CHANGELOG.md says nothing of version "+version)
	}
}

func TestCommittedImages(t *testing.T) {
	t.Parallel()
	built := []image{{Name: "a", Digest: "sha256:1"}, {Name: "b", Digest: "sha256:2"}}
	for text, want := range map[string]string{
		"# images@of\nhomeostat/a@sha256:1\nhomeostat/b@sha256:2\n": "",
		"homeostat/a@sha256:1\nhomeostat/b@sha256:3\n": "bundle/images.txt has sha256:3 of b, and its image of version 1.2.3 " +
			"is sha256:2, made with go",
		"homeostat/a@sha256:1\n": "bundle/images.txt has nothing of b",
	} {
		checkError(t, text, checkImages(text, built, "1.2.3"), want)
	}
}

func TestPublishedTemplate(t *testing.T) {
	t.Parallel()
	const template = "schema: olm.semver\nstable:\n  bundles:\n    - image: homeostat/a-bundle:v0.1.0\n" +
		"    - image: homeostat/a-bundle:v0.2.0\n"
	for name, tc := range map[string]struct {
		before map[string]bool
		want   string
	}{
		"the first release": {nil, "schema: olm.semver\nstable:\n  bundles:\n  - image: r/a-bundle:v0.2.0\n"},
		"the second": {
			map[string]bool{"0.1.0": true},
			"schema: olm.semver\nstable:\n  bundles:\n  - image: r/a-bundle:v0.1.0\n  - image: r/a-bundle:v0.2.0\n",
		},
	} {
		if got, err := publishedTemplate([]byte(template), "r/", "0.2.0", tc.before); err != nil || string(got) != tc.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, tc.want)
		}
	}
	_, err := publishedTemplate([]byte(template), "r/", "0.3.0", nil)
	checkError(t, "no bundle of the version", err, "it has no bundle of version 0.3.0")
}

// The checksums equal those of sha256sum, and any change is detected.
func TestSums(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	checkError(t, "nothing rehearsed", checkSums(folder), "run make release-dry-run first")
	write("a/b", "c")
	write("z", "")
	checkError(t, "writing them", writeSums(folder), "")
	checkError(t, "as it was", checkSums(folder), "")
	if sha256sum, err := exec.LookPath("sha256sum"); err == nil {
		cmd := exec.CommandContext(t.Context(), sha256sum, "-c", sumsFile)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 2 {
			t.Errorf("sha256sum -c: %s, %v", out, err)
		}
	}
	write("a/b", "d")
	checkError(t, "a change", checkSums(folder), "is not as the rehearsal left it (a/b)")
	write("a/b", "c")
	write("more", "")
	checkError(t, "a new file", checkSums(folder), "is not as the rehearsal left it (more)")
}
