package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// forge is a fake gh for releases, with files in a folder. It rejects creating a release twice and, unless told otherwise,
// uploading a file twice. It fails once if a certain file exists.
const forge = `#!/bin/sh
verb=$2 tag=$3
shift 3
echo "$verb $tag $*" | sed "s| /[^ ]*||g; s| *$||" >>"$FORGE/calls"
case $verb in
view) test -d "$FORGE/page" ;;
create) mkdir "$FORGE/page" ;;
upload)
	if [ "$1" = --clobber ]; then clobber=true; shift; fi
	for file; do
		to=$FORGE/page/$(basename "$file")
		if [ -e "$to" ] && [ -z "$clobber" ]; then exit 1; fi
		cp "$file" "$to"
		if rm "$FORGE/interrupt" 2>/dev/null; then exit 1; fi
	done
	;;
esac
`

// The page of a release can be created again after an interruption, and the downloaded files have the published checksums.
func TestPage(t *testing.T) {
	root, at := t.TempDir(), t.TempDir()
	t.Setenv("PATH", at+":"+os.Getenv("PATH"))
	t.Setenv("FORGE", at)
	if err := os.WriteFile(filepath.Join(at, "gh"), []byte(forge), 0o755); err != nil {
		t.Fatal(err)
	}
	r := rehearsal{folder: filepath.Join(root, "release"), plan: plan{Version: "1.2.3-rc.1"}}
	f := &fixture{t: t, root: r.folder}
	for _, name := range []string{"NOTES.md", "charts/a-1.2.3.tgz", "install/a.yaml", "images/a/index.json"} {
		f.write(name, "what is in "+name)
	}
	if err := r.makePage(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.plan.write(r.folder); err != nil {
		t.Fatal(err)
	}
	if err := writeSums(r.folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "interrupt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	page := []string{"page", "-o", r.folder, "-root", root}
	checkError(t, "interrupted", run(t.Context(), page, nil), "gh release upload v1.2.3-rc.1 --clobber")
	for range 2 {
		checkError(t, "again", run(t.Context(), page, nil), "")
	}
	checkSHA256(t, filepath.Join(at, "page"), 3)
	const again = "view v1.2.3-rc.1\nupload v1.2.3-rc.1 --clobber\nedit v1.2.3-rc.1 --draft=false\n"
	want := "view v1.2.3-rc.1\ncreate v1.2.3-rc.1 --draft --verify-tag --title v1.2.3-rc.1 --notes-file --prerelease\n" +
		"upload v1.2.3-rc.1 --clobber\n" + again + again
	if got := f.read(filepath.Join(at, "calls")); got != want {
		t.Errorf("gh was called\n%s\nwant\n%s", got, want)
	}
	f.write("NOTES.md", "others")
	checkError(t, "a change", run(t.Context(), page, nil), "is not as the rehearsal left it (NOTES.md)")
}

// Files of the same name in two folders would replace each other.
func TestPageNameConflict(t *testing.T) {
	t.Parallel()
	r := rehearsal{folder: t.TempDir()}
	f := &fixture{t: t, root: r.folder}
	f.write("install/a", "")
	f.write("sbom/a", "")
	checkError(t, "one name", r.makePage(t.Context()), "install/a and sbom/a would be one file on the page")
}

// checkDownloads copies the files of the page of a release into one folder, as a user would, and verifies them.
func checkDownloads(f *fixture, folder string, p *plan) {
	f.t.Helper()
	into := &fixture{t: f.t, root: f.t.TempDir()}
	for _, file := range p.Files {
		into.write(filepath.Base(file.Name), f.read(filepath.Join(folder, file.Name)))
	}
	into.write(sumsFile, f.read(filepath.Join(folder, pageSums)))
	checkSHA256(f.t, into.root, len(p.Files))
}

// checkSHA256 expects sha256sum to verify that number of files in a folder, and no other file.
func checkSHA256(t *testing.T, folder string, files int) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != files+1 || files == 0 {
		t.Errorf("there are %v, %v, want %d files and their checksums", entries, err, files)
	}
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", sumsFile)
	if runtime.GOOS == "darwin" { // macOS has another program for it
		cmd = exec.CommandContext(t.Context(), "shasum", "--algorithm", "256", "--check", "--strict", sumsFile)
	}
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != files {
		t.Errorf("sha256sum --check: %s, %v", out, err)
	}
}
