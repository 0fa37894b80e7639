package deb

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// A Layer is the content of a layer while it is written. It contains no times, and no names of owners.
type Layer struct {
	tar     *tar.Writer
	lower   map[string]kind
	entries map[string]kind
	exclude []string
}

// A kind says what an entry is, and where it comes from.
type kind int

const (
	folder kind = iota + 1
	file
	link    // symbolic
	ownFile // not of a package
)

// NewLayer begins a layer on top of another one, which may be nil. Packages' files and folders with the paths in exclude are
// left out.
func NewLayer(w io.Writer, lower *Layer, exclude ...string) *Layer {
	l := &Layer{tar: tar.NewWriter(w), entries: map[string]kind{}, exclude: exclude}
	if lower != nil {
		l.lower = lower.entries
	}
	return l
}

// aliases are the paths that are symbolic links to others on an installed system. Packages have files in them nevertheless.
var aliases = []struct{ from, to string }{
	{"bin", "usr/bin"},
	{"sbin", "usr/sbin"},
	{"lib", "usr/lib"},
	{"lib64", "usr/lib64"},
	{"var/run", "run"},
	{"var/lock", "run/lock"},
}

// canonical returns a path without aliases and without a slash at its ends.
func canonical(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	for _, alias := range aliases {
		if rest, ok := strings.CutPrefix(name+"/", alias.from+"/"); ok {
			return path.Join(alias.to, rest)
		}
	}
	return name
}

// AddAliases adds the symbolic links of an installed system, and the folders that they point to.
func (l *Layer) AddAliases() error {
	for _, alias := range aliases {
		if err := l.Add(Entry{Path: alias.to}, Entry{Path: path.Dir(alias.from)}); err != nil {
			return err
		}
		target := strings.Repeat("../", strings.Count(alias.from, "/")) + alias.to
		header := &tar.Header{Typeflag: tar.TypeSymlink, Name: alias.from, Linkname: target, Mode: 0o777}
		if err := l.write(header, nil, link); err != nil {
			return err
		}
	}
	return nil
}

// An Entry is a file, a symbolic link or a folder that no package has. Without Data and Target it is a folder.
type Entry struct {
	Path   string
	Data   string
	Target string // of a symbolic link
	Mode   int64  // default 0755 for folders, 0644 for files
	Owner  int    // user and group
}

// Add adds entries. The same paths of a lower layer are replaced, and those of packages that are added later are left out.
func (l *Layer) Add(entries ...Entry) error {
	for _, e := range entries {
		if err := l.add(e); err != nil {
			return err
		}
	}
	return nil
}

func (l *Layer) add(e Entry) error {
	name := canonical(e.Path)
	if name == "" {
		return nil
	}
	if above := path.Dir(name); above != "." && l.kind(above) == 0 {
		if err := l.add(Entry{Path: above}); err != nil {
			return err
		}
	}
	header := &tar.Header{Name: name, Uid: e.Owner, Gid: e.Owner, Mode: e.Mode}
	kind, mode := ownFile, int64(0o644)
	switch {
	case e.Target != "":
		header.Typeflag = tar.TypeSymlink
		header.Linkname = e.Target
		mode = 0o777
	case e.Data != "":
		header.Typeflag = tar.TypeReg
		header.Size = int64(len(e.Data))
	default:
		header.Typeflag = tar.TypeDir
		header.Name += "/"
		kind, mode = folder, 0o755
	}
	if header.Mode == 0 {
		header.Mode = mode
	}
	if l.entries[name] != 0 {
		if kind == folder && l.entries[name] == folder {
			return nil
		}
		return fmt.Errorf("the layer has two entries %s", name)
	}
	return l.write(header, strings.NewReader(e.Data), kind)
}

// kind returns the kind of an entry of this layer or the lower one, or 0.
func (l *Layer) kind(name string) kind {
	if k := l.entries[name]; k != 0 {
		return k
	}
	return l.lower[name]
}

func (l *Layer) write(header *tar.Header, content io.Reader, kind kind) error {
	if err := l.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("writing a layer: %w", err)
	}
	if header.Typeflag == tar.TypeReg {
		if _, err := io.Copy(l.tar, content); err != nil {
			return fmt.Errorf("writing a layer: %w", err)
		}
	}
	l.entries[strings.TrimSuffix(header.Name, "/")] = kind
	return nil
}

// AddPackage adds the files of a package. Documentation but the copyright, translations and files for a system's init are
// left out.
func (l *Layer) AddPackage(ctx context.Context, file string) error {
	return unpack(ctx, file, l.addArchive)
}

// ReadFile returns a file of a package.
func ReadFile(ctx context.Context, file, name string) (data []byte, err error) {
	err = unpack(ctx, file, func(content io.Reader) error {
		for r := tar.NewReader(content); ; {
			header, err := r.Next()
			if err != nil {
				return fmt.Errorf("looking for %s: %w", name, err)
			}
			if canonical(header.Name) == name && header.Typeflag == tar.TypeReg {
				if data, err = io.ReadAll(r); err == nil {
					_, err = io.Copy(io.Discard, content)
				}
				return err
			}
		}
	})
	return data, err
}

// unpack calls read with the archive of a package.
func unpack(ctx context.Context, file string, read func(io.Reader) error) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	content, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", file, err)
	}
	err = read(content)
	if err != nil {
		_ = cmd.Process.Kill()
	} else {
		_, err = io.Copy(io.Discard, content) // what follows the end of the archive
	}
	if ended := cmd.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("dpkg-deb: %w: %s", ended, strings.TrimSpace(stderr.String()))
	}
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", file, err)
	}
	return nil
}

// addArchive adds the entries of a package's archive.
func (l *Layer) addArchive(content io.Reader) error {
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if err := l.addEntry(header, r); err != nil {
			return err
		}
	}
}

func (l *Layer) addEntry(header *tar.Header, content io.Reader) error {
	name := canonical(header.Name)
	before := l.kind(name)
	if name == "" || l.entries[name] == ownFile || l.isExcluded(name) || before == folder && header.Typeflag == tar.TypeDir {
		return nil
	}
	if before != 0 {
		return fmt.Errorf("%s is in another package, too", name)
	}
	if above := l.kind(path.Dir(name)); path.Dir(name) != "." && above != folder {
		return fmt.Errorf("%s is not in a folder of this or another package", name)
	}
	clean := &tar.Header{
		Typeflag: header.Typeflag, Name: name, Linkname: header.Linkname, Mode: header.Mode & 0o7777,
		Uid: header.Uid, Gid: header.Gid,
	}
	kind := file
	switch header.Typeflag {
	case tar.TypeReg:
		clean.Size = header.Size
	case tar.TypeDir:
		clean.Name += "/"
		kind = folder
	case tar.TypeSymlink:
		kind = link
	case tar.TypeLink:
		clean.Linkname = canonical(header.Linkname)
		if l.entries[clean.Linkname] != file {
			return fmt.Errorf("%s is a link to %s, which is not there", name, clean.Linkname)
		}
	default:
		return fmt.Errorf("%s is neither a file nor a folder nor a link", name)
	}
	return l.write(clean, content, kind)
}

// unneeded are the folders that containers do not need.
var unneeded = []string{
	"boot", "etc/cron.d", "etc/cron.daily", "etc/default", "etc/init.d", "etc/logrotate.d", "etc/ufw", "etc/update-motd.d",
	"usr/games", "usr/lib/systemd", "usr/lib/tmpfiles.d", "usr/share/apport", "usr/share/bash-completion", "usr/share/bug",
	"usr/share/debianutils", "usr/share/doc-base", "usr/share/info", "usr/share/lintian", "usr/share/locale", "usr/share/man",
	"usr/share/menu", "usr/share/vim", "usr/src", "var/backups",
}

// isExcluded reports whether an entry of a package is left out.
func (l *Layer) isExcluded(name string) bool {
	below := func(folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }
	if slices.ContainsFunc(unneeded, below) || slices.ContainsFunc(l.exclude, below) {
		return true
	}
	parts := strings.Split(name, "/") // usr/share/doc/PACKAGE/copyright
	return below("usr/share/doc") && (len(parts) > 5 || len(parts) == 5 && parts[4] != "copyright")
}

// Close ends the layer.
func (l *Layer) Close() error {
	if err := l.tar.Close(); err != nil {
		return fmt.Errorf("writing a layer: %w", err)
	}
	return nil
}
