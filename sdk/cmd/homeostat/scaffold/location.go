package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"

	"golang.org/x/mod/modfile"
)

// modulePrefix is the prefix of the paths of all modules of this repository.
const modulePrefix = "github.com/homeostat-dev/homeostat/"

// location is the folder of the new module, and the source of its SDK.
type location struct {
	dir       string // absolute
	display   string // dir as shown to the user
	root      string // the checkout that contains the module; empty outside of one
	homeostat string // the checkout with the SDK to build with; empty if version is used
	commit    string // of that checkout, for an operator outside of it; empty if it is unknown
	version   string
}

// locate returns the location for a request. The folder must not exist yet.
func locate(r request, cwd string) (location, error) {
	dir := r.dir
	if dir == "" {
		dir = r.name
		if root := checkout(cwd); root != "" && r.language != languagePython {
			dir = filepath.Join(root, "operators", r.name)
		}
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(cwd, dir)
	}
	at := location{dir: filepath.Clean(dir), root: checkout(filepath.Dir(dir))}
	at.display = at.dir
	if rel, err := filepath.Rel(cwd, at.dir); err == nil && filepath.IsLocal(rel) {
		at.display = rel
	}
	if err := at.checkVacant(); err != nil {
		return at, err
	}
	if at.root != "" {
		return at, at.checkInside(r)
	}
	return at, at.findSDK(r, cwd)
}

// checkVacant returns an error unless the folder can be created.
func (at *location) checkVacant() error {
	switch _, err := os.Lstat(at.dir); {
	case err == nil:
		return usageErrorf("%s exists, and nothing is overwritten: choose another NAME or --dir, or remove it", at.display)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("looking for %s: %w", at.display, err)
	}
	parent := filepath.Dir(at.dir)
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		return usageErrorf("there is no folder %s to write %s to: make it, or choose another --dir", parent, filepath.Base(at.dir))
	}
	return nil
}

// checkInside checks the conditions of `make` and the Dockerfile for an operator of the repository.
func (at *location) checkInside(r request) error {
	want := filepath.Join(at.root, "operators", r.name)
	switch {
	case r.language == languagePython:
		return usageErrorf("%s is in a checkout of Homeostat, where the operators are written in Go: choose a --dir outside of it",
			at.display)
	case at.dir != want:
		return usageErrorf("%s is in a checkout of Homeostat, where this operator belongs into operators/%s: "+
			"leave out --dir, or choose a folder outside", at.display, r.name)
	case r.homeostat != "":
		return usageErrorf("--homeostat is for operators outside of a checkout: leave it out, or choose a --dir outside of it")
	case r.module != "" && r.module != modulePrefix+"operators/"+r.name:
		return usageErrorf("--module is for operators outside of a checkout: leave it out, or choose a --dir outside of it")
	}
	at.homeostat = at.root
	return nil
}

// findSDK sets the source of the SDK. It is the first of: the folder that the user names, the checkout around the current
// folder, the checkout in which this program was built, and the version of this program.
func (at *location) findSDK(r request, cwd string) error {
	if r.homeostat != "" {
		dir := r.homeostat
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(cwd, dir)
		}
		if at.homeostat = checkout(dir); at.homeostat == "" {
			return usageErrorf("--homeostat %s is no checkout of Homeostat: name a folder whose go.work uses ./sdk and ./testkit",
				r.homeostat)
		}
		return nil
	}
	if at.homeostat = checkout(cwd); at.homeostat != "" {
		return nil
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		if at.homeostat = checkout(filepath.Dir(file)); at.homeostat != "" {
			return nil
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Sum != "" { // only published modules have a sum
		at.version = info.Main.Version
		return nil
	}
	return usageErrorf("the SDK to build with is not found: name a checkout of Homeostat by --homeostat")
}

// checkout returns the root of the checkout of Homeostat that contains the folder, or "".
func checkout(dir string) string {
	for {
		if isCheckout(dir) {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

func isCheckout(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "go.work"))
	if err != nil {
		return false
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		return false
	}
	for _, library := range []string{"sdk", "testkit"} {
		used := slices.ContainsFunc(work.Use, func(u *modfile.Use) bool { return path.Clean(u.Path) == library })
		mod, err := os.ReadFile(filepath.Join(dir, library, "go.mod"))
		if err != nil || !used || modfile.ModulePath(mod) != modulePrefix+library {
			return false
		}
	}
	return true
}
