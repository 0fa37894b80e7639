// Package programs builds the programs of the Operator Lifecycle Manager for the tests, and caches them.
package programs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// tags exclude packages that need C libraries. The go command accepts no tags for the tools of a module, so these programs
// are built as packages.
const tags = "json1,containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper"

// A Source is the source code of programs.
type Source struct {
	// Module is a folder with a go.mod, which selects the versions.
	Module   string
	Packages []string
	// Edits change the addresses that the programs listen on, for which they have no flag, to the loopback interface.
	Edits []Edit
}

// An Edit replaces a text that occurs once in a file of a package.
type Edit struct{ Package, File, Old, New string }

// Build builds programs into the user's cache, and returns their folder. Programs of the same source and the same Go are
// built once. Concurrent builds by several processes are safe. The first build takes minutes, and notice is called before
// it.
func Build(ctx context.Context, s Source, notice func(string)) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("looking for the user's cache: %w", err)
	}
	name, err := s.digest()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "homeostat", "olm", name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return "", fmt.Errorf("making a folder in the user's cache: %w", err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "building-")
	if err != nil {
		return "", fmt.Errorf("making a folder in the user's cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	if err := os.Chmod(temp, 0o755); err != nil {
		return "", fmt.Errorf("making a folder in the user's cache: %w", err)
	}
	notice("building OLM's programs, once: 2 to 4 minutes on 2 cores; they are kept in " + dir)
	copies, err := os.MkdirTemp("", "edited")
	if err != nil {
		return "", fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(copies) }()
	modfile, err := s.applyEdits(ctx, copies)
	if err != nil {
		return "", err
	}
	_, err = s.command(ctx, append([]string{
		"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-tags=" + tags, "-modfile=" + modfile, "-o", temp,
	}, s.Packages...)...)
	if err != nil {
		return "", err
	}
	if err := os.Rename(temp, dir); err != nil {
		if _, there := os.Stat(dir); there != nil { // unless another process was faster
			return "", fmt.Errorf("keeping OLM's programs: %w", err)
		}
	}
	return dir, nil
}

// command runs the go command in the module.
func (s Source) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"-C", s.Module}, args...)...)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building OLM's programs in %s: %w\n%s", s.Module, err, said.Bytes())
	}
	return string(bytes.TrimSpace(out)), nil
}

// applyEdits writes copies of the modules with the edits into a folder, and a go.mod that replaces the originals.
func (s Source) applyEdits(ctx context.Context, dir string) (modfile string, err error) {
	copies := map[string]string{} // by the path of the module
	for _, e := range s.Edits {
		found, err := s.command(ctx, "list", "-tags="+tags, "-f={{.Module.Path}} {{.Module.Dir}} {{.Dir}}", e.Package)
		if err != nil {
			return "", err
		}
		var module, from, folder string
		if _, err := fmt.Sscan(found, &module, &from, &folder); err != nil {
			return "", fmt.Errorf("looking for package %s: %w", e.Package, err)
		}
		if copies[module] == "" {
			copies[module] = filepath.Join(dir, fmt.Sprintf("copy-%d", len(copies)))
			if err := os.CopyFS(copies[module], os.DirFS(from)); err != nil {
				return "", fmt.Errorf("copying module %s: %w", module, err)
			}
		}
		if err := e.apply(filepath.Join(copies[module], strings.TrimPrefix(folder, from), e.File)); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(s.Module, name))
		if err != nil {
			return "", fmt.Errorf("reading the module of OLM's programs: %w", err)
		}
		if name == "go.mod" {
			for module, dir := range copies {
				data = fmt.Appendf(data, "\nreplace %s => %s\n", module, dir)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return "", fmt.Errorf("writing the module of OLM's programs: %w", err)
		}
	}
	return filepath.Join(dir, "go.mod"), nil
}

func (e Edit) apply(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading where a program listens: %w", err)
	}
	if n := bytes.Count(data, []byte(e.Old)); n != 1 {
		return fmt.Errorf("%s of %s has %q %d times, not once: look where the program listens now", e.File, e.Package, e.Old, n)
	}
	// A file of the module cache is read-only, and so is its copy.
	err = errors.Join(os.Remove(file), os.WriteFile(file, bytes.Replace(data, []byte(e.Old), []byte(e.New), 1), 0o600))
	if err != nil {
		return fmt.Errorf("writing where a program listens: %w", err)
	}
	return nil
}

// digest returns the cache key of a build: the hash of the source and of the Go version.
func (s Source) digest() (string, error) {
	h := sha256.New()
	_, _ = fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, tags, s.Packages, s.Edits)
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(s.Module, name))
		if err != nil {
			return "", fmt.Errorf("reading the module of OLM's programs: %w", err)
		}
		_, _ = fmt.Fprintf(h, "%s %d\n%s\n", name, len(data), data)
	}
	const enough = 8
	return hex.EncodeToString(h.Sum(nil)[:enough]), nil
}
