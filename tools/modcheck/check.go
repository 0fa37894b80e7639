package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// module is one go.mod of the workspace.
type module struct {
	dir  string // as in go.work, cleaned and with slashes: "operators/database"
	file *modfile.File
}

// forbidden lists the dependencies that no go.mod may have. within interprets both sides.
var forbidden = []struct{ from, to, why string }{
	{"sdk", "", "importers of sdk must get nothing else of ours"},
	{"testkit", "operators/", "testkit serves every operator, so it knows none"},
	{"testkit/", "operators/", "testkit serves every operator, so it knows none"},
	{"testkit", "", "importers of testkit must get nothing else of ours"},
	{"testkit/", "sdk", "testkit serves operators of every library, so it requires none"},
	{"operators/", "operators/", "operators ship one by one"},
}

// check returns a sentence for each problem of the workspace in fsys, and an error if it cannot be read.
func check(fsys fs.FS) ([]string, error) {
	mods, err := load(fsys)
	if err != nil {
		return nil, err
	}
	plane, err := loadControlPlane(fsys)
	if err != nil {
		return nil, err
	}
	return slices.Concat(goLines(mods), versions(mods), siblings(mods), sharing(mods, plane)), nil
}

func load(fsys fs.FS) ([]module, error) {
	data, err := fs.ReadFile(fsys, "go.work")
	if err != nil {
		return nil, fmt.Errorf("reading the workspace: %w", err)
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		return nil, fmt.Errorf("parsing the workspace: %w", err)
	}
	mods := make([]module, 0, len(work.Use))
	for _, use := range work.Use {
		m := module{dir: path.Clean(use.Path)}
		data, err := fs.ReadFile(fsys, m.dir+"/go.mod")
		if err != nil {
			return nil, fmt.Errorf("reading a module of go.work: %w", err)
		}
		if m.file, err = modfile.Parse(m.dir+"/go.mod", data, nil); err != nil {
			return nil, fmt.Errorf("parsing a module of go.work: %w", err)
		}
		if m.file.Module == nil || m.file.Go == nil {
			return nil, fmt.Errorf("parsing a module of go.work: %s/go.mod lacks a module line or a go line", m.dir)
		}
		mods = append(mods, m)
	}
	return mods, nil
}

// controlPlane is the go.mod file of the control plane, a module outside the workspace.
const controlPlane = "testkit/assets/controlplane/go.mod.txt"

// loadControlPlane returns an empty file if the repository has no control plane.
func loadControlPlane(fsys fs.FS) (*modfile.File, error) {
	data, err := fs.ReadFile(fsys, controlPlane)
	if errors.Is(err, fs.ErrNotExist) {
		return &modfile.File{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the module of the control plane: %w", err)
	}
	file, err := modfile.Parse(controlPlane, data, nil)
	if err != nil {
		return nil, fmt.Errorf("parsing the module of the control plane: %w", err)
	}
	return file, nil
}

// sharing requires the control plane to have the versions of the workspace: the go command compiles a package once for each
// version.
func sharing(mods []module, plane *modfile.File) (problems []string) {
	workspace := map[string]string{}
	for _, m := range mods {
		for _, r := range m.file.Require {
			workspace[r.Mod.Path] = r.Mod.Version
		}
	}
	built := map[string]string{}
	for _, r := range plane.Require {
		built[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range plane.Replace {
		if built[r.Old.Path] != "" && r.New.Version != "" {
			built[r.Old.Path] = r.New.Version
		}
	}
	for _, dependency := range slices.Sorted(maps.Keys(built)) {
		if want := workspace[dependency]; want != "" && built[dependency] != want {
			problems = append(problems, fmt.Sprintf("%s: builds %s %s, but the workspace has %s: write the same version in both, "+
				"so that its packages are compiled once", controlPlane, dependency, built[dependency], want))
		}
	}
	return problems
}

// goLines requires the same go line in each module, and no toolchain line.
func goLines(mods []module) (problems []string) {
	for _, m := range mods {
		if first := mods[0]; m.file.Go.Version != first.file.Go.Version {
			problems = append(problems, fmt.Sprintf("%s/go.mod: has go %s, but %s/go.mod has go %s: write the same in both",
				m.dir, m.file.Go.Version, first.dir, first.file.Go.Version))
		}
		if m.file.Toolchain != nil {
			problems = append(problems, fmt.Sprintf("%s/go.mod: has toolchain %s: delete it, the go line is enough",
				m.dir, m.file.Toolchain.Name))
		}
	}
	return problems
}

// versions requires each dependency, direct or not, to have one version in all modules.
func versions(mods []module) (problems []string) {
	wantedBy := map[string]map[string][]string{} // dependency, version, folders
	for _, m := range mods {
		for _, r := range m.file.Require {
			if wantedBy[r.Mod.Path] == nil {
				wantedBy[r.Mod.Path] = map[string][]string{}
			}
			wantedBy[r.Mod.Path][r.Mod.Version] = append(wantedBy[r.Mod.Path][r.Mod.Version], m.dir)
		}
	}
	for _, dependency := range slices.Sorted(maps.Keys(wantedBy)) {
		var wishes []string
		for version, dirs := range wantedBy[dependency] {
			wishes = append(wishes, version+" in "+strings.Join(dirs, ", "))
		}
		if slices.Sort(wishes); len(wishes) > 1 {
			problems = append(problems, fmt.Sprintf("%s: required at %s: run `make tidy` to select one",
				dependency, strings.Join(wishes, " and at ")))
		}
	}
	return problems
}

// siblings checks each dependency between modules of the workspace.
func siblings(mods []module) (problems []string) {
	for _, from := range mods {
		for _, to := range mods {
			if requires(from, to) {
				problems = append(problems, checkRequire(from, to)...)
			}
		}
	}
	return problems
}

// checkRequire requires a replace with the sibling's folder for the require, and that the dependency is not forbidden.
func checkRequire(from, to module) (problems []string) {
	rel, err := filepath.Rel(from.dir, to.dir)
	if rel = filepath.ToSlash(rel); err != nil || !replaces(from, to, rel) {
		problems = append(problems, fmt.Sprintf("%s/go.mod: requires %s without its replace: add `replace %s => %s`",
			from.dir, to.dir, to.path(), rel))
	}
	for _, f := range forbidden {
		if within(f.from, from.dir) && within(f.to, to.dir) {
			problems = append(problems, fmt.Sprintf("%s/go.mod: must not require %s: %s", from.dir, to.dir, f.why))
		}
	}
	return problems
}

func (m module) path() string { return m.file.Module.Mod.Path }

func requires(m, sibling module) bool {
	return slices.ContainsFunc(m.file.Require, func(r *modfile.Require) bool { return r.Mod.Path == sibling.path() })
}

func replaces(m, sibling module, rel string) bool {
	return slices.ContainsFunc(m.file.Replace, func(r *modfile.Replace) bool {
		return r.Old.Path == sibling.path() && path.Clean(r.New.Path) == rel
	})
}

// within reports whether a folder matches one side of a rule: a folder, a folder and all below it if the pattern ends in a
// slash, or any folder if it is empty.
func within(pattern, dir string) bool {
	return pattern == "" || dir == pattern || strings.HasSuffix(pattern, "/") && strings.HasPrefix(dir, pattern)
}
