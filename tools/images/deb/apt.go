// Package deb makes layers of Debian packages. It resolves them with apt-get, unpacks them with dpkg-deb, and runs none of
// their scripts. It needs no root permissions.
package deb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Package is a package of one version.
type Package struct {
	Name    string
	Version string // with the epoch
	File    string // the name of its file
}

// An Apt resolves and downloads packages from the sources of this machine, which apt-get verifies. It regards no packages as
// installed but those that the caller names.
type Apt struct {
	cache   string // has the downloaded packages
	scratch string
}

// programs are the programs that the package runs.
var programs = []string{"apt-get", "apt-config", "dpkg", "dpkg-deb"}

// Available returns an error that says which program is missing.
func Available() error {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("these images are made of Debian packages, which needs %s, and this machine does not have it", program)
		}
	}
	return nil
}

// NewApt returns an Apt that keeps packages in the folder cache, and other files in the folder scratch. It regards the
// packages in assumed as installed, so that neither they nor what only they depend on are part of a result.
func NewApt(cache, scratch string, assumed []string) (*Apt, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	a := &Apt{cache: cache, scratch: scratch}
	var status strings.Builder
	for _, name := range assumed {
		fmt.Fprintf(&status, "Package: %s\nStatus: install ok installed\nMulti-Arch: allowed\n"+
			"Architecture: %s\nVersion: 999\nMaintainer: none\nDescription: assumed\n", name, architecture())
		if name == "debconf" {
			status.WriteString("Provides: debconf-2.0\n")
		}
		status.WriteString("\n")
	}
	err := errors.Join(os.MkdirAll(filepath.Join(cache, "partial"), 0o755),
		os.MkdirAll(filepath.Join(scratch, "none", "partial"), 0o755),
		os.WriteFile(filepath.Join(scratch, "status"), []byte(status.String()), 0o644))
	if err != nil {
		return nil, fmt.Errorf("preparing apt: %w", err)
	}
	return a, nil
}

// get returns the output of apt-get, whose archives are in a folder.
func (a *Apt) get(ctx context.Context, archives string, args ...string) ([]byte, error) {
	scratch := func(name string) string { return filepath.Join(a.scratch, name) }
	var options []string
	for _, option := range []string{
		"Dir::State::status=" + scratch("status"), "Dir::State::extended_states=" + scratch("extended_states"),
		"Dir::Cache=" + a.scratch, "Dir::Cache::pkgcache=" + scratch("pkgcache.bin"), "Dir::Cache::srcpkgcache=",
		"Dir::Cache::archives=" + archives, "APT::Install-Recommends=false", "APT::Install-Suggests=false",
		"APT::Sandbox::User=", "Debug::NoLocking=true", "Acquire::Retries=3", // the caller has a lock
	} {
		options = append(options, "-o", option)
	}
	return run(ctx, "apt-get", append(append(options, "--quiet", "--yes"), args...)...)
}

// Resolve returns the named packages and those that they depend on, in the order of the names.
func (a *Apt) Resolve(ctx context.Context, names ...string) ([]Package, error) {
	// Files that are in the folder of archives are not printed.
	out, err := a.get(ctx, filepath.Join(a.scratch, "none"), append([]string{"--print-uris", "install"}, names...)...)
	if err != nil {
		return nil, fmt.Errorf("resolving %s: %w", strings.Join(names, " "), err)
	}
	return parse(string(out))
}

// parse reads the lines of apt-get --print-uris: 'URI' FILE SIZE HASH. FILE is NAME_VERSION_ARCHITECTURE.deb.
func parse(out string) ([]Package, error) {
	var all []Package
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if !strings.HasPrefix(line, "'") || len(fields) < 3 {
			continue
		}
		parts := strings.Split(strings.TrimSuffix(fields[1], ".deb"), "_")
		if len(parts) != 3 {
			return nil, fmt.Errorf("apt-get names the file %q, which is not NAME_VERSION_ARCHITECTURE.deb", fields[1])
		}
		version, err := url.PathUnescape(parts[1])
		if err != nil {
			return nil, fmt.Errorf("reading the version of %q: %w", fields[1], err)
		}
		all = append(all, Package{Name: parts[0], Version: version, File: fields[1]})
	}
	slices.SortFunc(all, func(a, b Package) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Download downloads what Resolve returns for these names, unless it is there.
func (a *Apt) Download(ctx context.Context, names ...string) error {
	if _, err := a.get(ctx, a.cache, append([]string{"--download-only", "install"}, names...)...); err != nil {
		return fmt.Errorf("downloading the packages: %w", err)
	}
	return nil
}

// File returns the path of a downloaded package.
func (a *Apt) File(p Package) string { return filepath.Join(a.cache, p.File) }

// Keep deletes all downloaded packages but those.
func (a *Apt) Keep(packages []Package) error {
	files, err := filepath.Glob(filepath.Join(a.cache, "*.deb"))
	for _, file := range files {
		if !slices.ContainsFunc(packages, func(p Package) bool { return a.File(p) == file }) {
			err = errors.Join(err, os.Remove(file))
		}
	}
	if err != nil {
		return fmt.Errorf("deleting old packages: %w", err)
	}
	return nil
}

// run returns the standard output of a program. An error has the lines that begin with E:, or all of standard error.
func run(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		var lines []string
		for line := range strings.Lines(stderr.String()) {
			if strings.HasPrefix(line, "E: ") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return nil, fmt.Errorf("%s: %w: %s", program, err, cmp.Or(strings.Join(lines, " "), strings.TrimSpace(stderr.String())))
	}
	return stdout.Bytes(), nil
}
