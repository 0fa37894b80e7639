package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// A goModule is a module of the repository that is released.
type goModule struct {
	dir  string // below the root, with slashes
	file *modfile.File
	sum  []byte // its go.sum
}

func (m *goModule) path() string { return m.file.Module.Mod.Path }

// tag returns the tag by which the go command finds a version.
func (m *goModule) tag(version string) string { return m.dir + "/v" + version }

// loadModules reads the modules in folders of the repository.
func loadModules(root string, dirs []string) ([]*goModule, error) {
	var all []*goModule
	for _, dir := range dirs {
		m := &goModule{dir: path.Clean(dir)}
		name := filepath.Join(root, filepath.FromSlash(dir), "go.mod")
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading a module: %w", err)
		}
		if m.file, err = modfile.Parse(m.dir+"/go.mod", data, nil); err != nil {
			return nil, fmt.Errorf("reading a module: %w", err)
		}
		if m.file.Module == nil || !strings.HasSuffix(m.path(), "/"+m.dir) {
			return nil, fmt.Errorf("%s/go.mod: the path of the module has to end in /%s, or the tag %s would be none of it",
				m.dir, m.dir, m.tag("1.2.3"))
		}
		if m.sum, err = os.ReadFile(filepath.Join(filepath.Dir(name), "go.sum")); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("reading a module: %w", err)
		}
		all = append(all, m)
	}
	return all, nil
}

// repositoryOf returns the common path of the modules, which is the path of their repository.
func repositoryOf(modules []*goModule) (string, error) {
	if len(modules) == 0 {
		return "", errors.New("there is no module to release: name some with -modules")
	}
	root := strings.TrimSuffix(modules[0].path(), "/"+modules[0].dir)
	for _, m := range modules {
		if m.path() != root+"/"+m.dir {
			return "", fmt.Errorf("%s/go.mod: the module is %s, and %s/go.mod is in the repository %s: they are not in one",
				m.dir, m.path(), modules[0].dir, root)
		}
	}
	return root, nil
}

// dependencyOrder sorts modules by dependency, and then by folder. It rejects cycles, and a module that requires a module of
// the repository that is not released.
func dependencyOrder(repository string, modules []*goModule) ([]*goModule, error) {
	modules = slices.SortedFunc(slices.Values(modules), func(a, b *goModule) int { return strings.Compare(a.dir, b.dir) })
	waiting := map[string]map[string]bool{} // by module, the siblings that come before it
	for _, m := range modules {
		waiting[m.path()] = map[string]bool{}
	}
	for _, m := range modules {
		for _, r := range siblings(repository, m.file) {
			if waiting[r] == nil {
				return nil, fmt.Errorf("%s/go.mod requires %s, which is not released: release it, too, or do without it", m.dir, r)
			}
			waiting[m.path()][r] = true
		}
	}
	var sorted []*goModule
	for len(modules) > 0 {
		next := slices.IndexFunc(modules, func(m *goModule) bool { return len(waiting[m.path()]) == 0 })
		if next < 0 {
			var dirs []string
			for _, m := range modules {
				dirs = append(dirs, m.dir)
			}
			return nil, fmt.Errorf("the modules %s require each other in a circle: none can be released before the others",
				strings.Join(dirs, ", "))
		}
		m := modules[next]
		sorted, modules = append(sorted, m), slices.Delete(modules, next, next+1)
		for _, others := range waiting {
			delete(others, m.path())
		}
	}
	return sorted, nil
}

// siblings returns the modules of the same repository that a go.mod requires.
func siblings(repository string, file *modfile.File) (paths []string) {
	for _, r := range file.Require {
		if strings.HasPrefix(r.Mod.Path, repository+"/") {
			paths = append(paths, r.Mod.Path)
		}
	}
	return paths
}

// sums are the checksums in go.sum of a module of the repository: of its files, and of its go.mod.
type sums struct{ zip, mod string }

// releasedFiles returns the go.mod and the go.sum of the released module. Its siblings are required at the version, with
// their checksums, and the replace directives are removed, because the folders do not exist outside.
func (m *goModule) releasedFiles(repository, version string, known map[string]sums) (mod, sum []byte, err error) {
	file, err := modfile.Parse(m.dir+"/go.mod", modfile.Format(m.file.Syntax), nil)
	if err != nil {
		return nil, nil, fmt.Errorf("reading a module: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(m.sum)), "\n")
	for _, sibling := range siblings(repository, file) {
		if err := file.AddRequire(sibling, "v"+version); err != nil {
			return nil, nil, fmt.Errorf("%s/go.mod: %w", m.dir, err)
		}
		s, ok := known[sibling]
		if !ok {
			return nil, nil, fmt.Errorf("%s/go.mod requires %s, whose checksum is not known yet", m.dir, sibling)
		}
		lines = append(lines, sibling+" v"+version+" "+s.zip, sibling+" v"+version+"/go.mod "+s.mod)
	}
	for _, r := range slices.Clone(file.Replace) {
		if !strings.HasPrefix(r.Old.Path, repository+"/") {
			return nil, nil, fmt.Errorf("%s/go.mod replaces %s, which has no effect for those who import the module: do without it",
				m.dir, r.Old.Path)
		}
		if err := file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return nil, nil, fmt.Errorf("%s/go.mod: %w", m.dir, err)
		}
	}
	file.Cleanup()
	mod, err = file.Format()
	if err != nil {
		return nil, nil, fmt.Errorf("%s/go.mod: %w", m.dir, err)
	}
	return mod, sortSums(lines), nil
}

// sortSums sorts the lines of a go.sum in the order of the go command.
func sortSums(lines []string) []byte {
	byVersion := map[module.Version]string{}
	var versions []module.Version
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) == 3 {
			v := module.Version{Path: fields[0], Version: fields[1]}
			byVersion[v] = line
			versions = append(versions, v)
		}
	}
	module.Sort(versions)
	var text strings.Builder
	for _, v := range slices.Compact(versions) {
		text.WriteString(byVersion[v] + "\n")
	}
	return []byte(text.String())
}
