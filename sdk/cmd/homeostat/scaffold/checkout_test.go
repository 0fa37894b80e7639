package scaffold

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// Files that are committed do not name a folder of this machine, and those that do are ignored by git.
func TestUseCheckout(t *testing.T) {
	t.Parallel()
	const homeostat = "/home/me/src/homeostat"
	op, err := newOperator(request{name: "shop", kind: "WebShop", group: "a.example.com", version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	op.setLocation(location{homeostat: homeostat, commit: "0123abcd"})
	files, err := op.files()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := writeFiles(dir, files); err != nil {
		t.Fatal(err)
	}
	if err := useCheckout(dir, homeostat); err != nil {
		t.Fatal(err)
	}
	checkIgnored(t, dir, homeostat, strings.Split(string(files[".gitignore"]), "\n"))
	if text := string(files["Makefile"]); !strings.Contains(text, ",0123abcd,sdk/$(HOMEOSTAT_VERSION))") {
		t.Error("the Makefile does not fetch the commit of the checkout")
	}
	data, err := os.ReadFile(filepath.Join(dir, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range work.Replace {
		if want := homeostat + "/" + replacedModules[i]; r.New.Path != want || r.Old.Path != modulePrefix+replacedModules[i] {
			t.Errorf("go.work replaces %s by %s, want %s", r.Old.Path, r.New.Path, want)
		}
	}
}

// checkIgnored checks that git ignores the files that name the checkout, and no others.
func checkIgnored(t *testing.T, dir, homeostat string, ignored []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		name := strings.TrimPrefix(file, dir)
		isIgnored := slices.Contains(ignored, name)
		if has := strings.Contains(string(data), homeostat); has != isIgnored {
			t.Errorf("%s names the checkout: %t, and git ignores it: %t", name, has, isIgnored)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFindCommit(t *testing.T) {
	t.Parallel()
	at := location{homeostat: t.TempDir()}
	if err := at.findCommit(t.Context()); err != nil || at.commit != "" {
		t.Errorf("without a repository the commit is %q, %v", at.commit, err)
	}
}
