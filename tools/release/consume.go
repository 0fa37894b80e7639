package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
)

// tagModules creates the commit and the tags of a release. In dependency order, each module gets its released go.mod and
// go.sum. They contain the checksums of the modules before it, computed by the go command, which fetches them by their tags.
// tagModules stores the files in a folder, and the modules in the folder proxy for the go command. It returns the commit of
// all tags.
func (r *rehearsal) tagModules(ctx context.Context, s *scratchRepository) (string, error) {
	known := map[string]sums{}
	var dirs []string
	for _, m := range r.modules {
		if err := r.writeModule(m, known); err != nil {
			return "", err
		}
		dirs = append(dirs, m.dir)
		commit, err := s.commitModules(ctx, r.path("modules", "files"), r.version, []string{m.dir})
		if err == nil {
			err = s.tag(ctx, m.tag(r.version), commit)
		}
		if err == nil {
			known[m.path()], err = r.fetch(ctx, s, m, r.temp("cache-of-checksums"))
		}
		if err != nil {
			return "", err
		}
	}
	commit, err := s.commitModules(ctx, r.path("modules", "files"), r.version, dirs)
	if err != nil {
		return "", err
	}
	for _, m := range r.modules {
		if err := s.tag(ctx, m.tag(r.version), commit); err != nil {
			return "", err
		}
	}
	return commit, r.fetchAgain(ctx, s, known)
}

// writeModule writes the go.mod and the go.sum of a released module.
func (r *rehearsal) writeModule(m *goModule, known map[string]sums) error {
	mod, sum, err := m.releasedFiles(r.repository, r.version, known)
	if err != nil {
		return err
	}
	into := r.path("modules", "files", m.dir)
	err = errors.Join(os.MkdirAll(into, 0o755), os.WriteFile(filepath.Join(into, "go.mod"), mod, 0o644))
	if len(sum) > 0 {
		err = errors.Join(err, os.WriteFile(filepath.Join(into, "go.sum"), sum, 0o644))
	}
	if err != nil {
		return fmt.Errorf("writing a module of the release: %w", err)
	}
	return nil
}

// fetchAgain fetches all modules by the published tags, and compares their checksums with the known ones.
func (r *rehearsal) fetchAgain(ctx context.Context, s *scratchRepository, known map[string]sums) error {
	for _, m := range r.modules {
		again, err := r.fetch(ctx, s, m, r.temp("cache"))
		if err == nil && again != known[m.path()] {
			err = fmt.Errorf("module %s has other checksums in the commit of all tags (%v) than before (%v)",
				m.dir, again, known[m.path()])
		}
		if err == nil {
			err = r.addToProxy(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetch lets the go command fetch a module by its tag, as if from the repository's address. It uses a separate module cache,
// because a rehearsed module in the user's cache would be taken for the released one.
func (r *rehearsal) fetch(ctx context.Context, s *scratchRepository, m *goModule, cache string) (sums, error) {
	outside := command{dir: r.temp("outside"), env: []string{
		"GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE=" + cache, "GOPROXY=direct", "GONOSUMDB=" + r.repository, "GOSUMDB=off",
		"GOVCS=" + r.repository + ":git",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + s.dir + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + r.repository,
	}}
	out, err := outside.run(ctx, "go", "mod", "download", "-json", m.path()+"@v"+r.version)
	if err != nil {
		return sums{}, err
	}
	var found struct {
		Sum      string `json:"sum"`
		GoModSum string `json:"goModSum"`
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return sums{}, fmt.Errorf("reading what go mod download says of %s: %w", m.dir, err)
	}
	return sums{zip: found.Sum, mod: found.GoModSum}, nil
}

// proxyFiles are the files of a version in a module proxy.
var proxyFiles = []string{".info", ".mod", ".zip"}

// addToProxy copies a fetched module into the folder that serves as a proxy.
func (r *rehearsal) addToProxy(m *goModule) error {
	escaped, err := module.EscapePath(m.path())
	if err != nil {
		return fmt.Errorf("module %s: %w", m.dir, err)
	}
	from, to := filepath.Join(r.temp("cache"), "cache", "download", escaped, "@v"), r.path("modules", "proxy", escaped, "@v")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("writing the proxy: %w", err)
	}
	for _, suffix := range proxyFiles {
		data, err := os.ReadFile(filepath.Join(from, "v"+r.version+suffix))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, "v"+r.version+suffix), data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("writing the proxy: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(to, "list"), []byte("v"+r.version+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing the proxy: %w", err)
	}
	return nil
}

// downloadDependencies lets the go command fetch missing dependencies of the modules into the cache of this machine, from
// the usual sources. Modules of the repository are folders here and are not fetched.
func (r *rehearsal) downloadDependencies(ctx context.Context) error {
	for _, m := range r.modules {
		at := command{dir: filepath.Join(r.root, filepath.FromSlash(m.dir)), env: []string{"GOWORK=off", "CGO_ENABLED=0"}}
		if _, err := at.run(ctx, "go", "list", "-mod=readonly", "-deps", "./..."); err != nil {
			return fmt.Errorf("fetching what %s needs of others: %w", m.dir, err)
		}
	}
	return nil
}

// consume compiles all packages of the released modules as a user of the modules would: outside the repository, with modules
// only from the folder proxy and from the cache of this machine. Then it checks that the go.sum of each module is complete.
func (r *rehearsal) consume(ctx context.Context) error {
	if err := r.downloadDependencies(ctx); err != nil {
		return err
	}
	cache, err := command{}.run(ctx, "go", "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("module outside\n\ngo " + r.modules[0].file.Go.Version + "\n\nrequire (\n")
	patterns := []string{"build"}
	for _, m := range r.modules {
		fmt.Fprintf(&text, "\t%s v%s\n", m.path(), r.version)
		patterns = append(patterns, m.path()+"/...")
	}
	text.WriteString(")\n")
	if err := os.WriteFile(filepath.Join(r.temp("outside"), "go.mod"), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("writing a module outside the repository: %w", err)
	}
	// With -trimpath and without cgo, packages of dependencies are shared with the images and are compiled already.
	env := []string{
		"GOWORK=off", "GOFLAGS=-modcacherw -trimpath -mod=mod", "CGO_ENABLED=0", "GOMODCACHE=" + r.temp("consumer"), "GOSUMDB=off",
		"GONOSUMDB=*", "GOPROXY=file://" + r.path("modules", "proxy") + ",file://" + filepath.Join(cache, "cache", "download"),
		"GONOPROXY=none", // overrides GOPRIVATE
	}
	if _, err := (command{r.temp("outside"), env}).run(ctx, "go", patterns...); err != nil {
		return fmt.Errorf("compiling the modules as an importer does: %w", err)
	}
	for _, m := range r.modules {
		dir := filepath.Join(r.temp("consumer"), filepath.FromSlash(m.path())+"@v"+r.version)
		at := command{dir: dir, env: append(env, "GOFLAGS=-modcacherw -trimpath -mod=readonly")}
		if _, err := at.run(ctx, "go", "list", "-deps", "./..."); err != nil {
			return fmt.Errorf("holding the go.sum of %s to what it needs: %w", m.dir, err)
		}
	}
	return nil
}

// filesBelow returns the files in a folder, by their names below it, sorted.
func filesBelow(folder string) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", folder, err)
	}
	return names, nil
}
