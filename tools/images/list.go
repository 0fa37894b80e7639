package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/homeostat-dev/homeostat/tools/images/archive"
	"github.com/homeostat-dev/homeostat/tools/images/deb"
)

// listFile lists the base images of a folder. It is written last.
const listFile = "images.json"

// A list is the content of listFile.
type list struct {
	State  string   `json:"state"` // digest of the state of apt and of this program
	Images []listed `json:"images"`
}

// listed describes an image.
type listed struct {
	File      string   `json:"file"` // in the same folder
	Version   string   `json:"version,omitempty"`
	Names     []string `json:"names"`
	StandsFor []string `json:"standsFor,omitempty"` // names of other versions than the image has
	Digest    string   `json:"digest"`              // of the manifest
	Bytes     int64    `json:"bytes"`               // of the file
	Packages  []string `json:"packages,omitempty"`  // NAME VERSION
	Key       string   `json:"key"`                 // digest of the packages and of this program
}

// readList returns the list of a folder without the images whose file is missing or another one.
func readList(folder string) (list, error) {
	data, err := os.ReadFile(filepath.Join(folder, listFile))
	if errors.Is(err, os.ErrNotExist) {
		return list{}, nil
	}
	var l list
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		return list{}, fmt.Errorf("reading the list of images: %w", err)
	}
	var there []listed
	for _, i := range l.Images {
		file := filepath.Join(folder, i.File)
		image, err := archive.Read(file)
		if info, err2 := os.Stat(file); err == nil && err2 == nil && info.Size() == i.Bytes && image.Digest == i.Digest {
			there = append(there, i)
		}
	}
	l.Images = there
	return l, nil
}

// isCurrent reports whether the folder has all images of this state.
func (l list) isCurrent(state string) bool {
	return l.State == state && len(l.Images) == len(baseImages)
}

// write replaces the list of the folder.
func (l list) write(folder string) error {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the list of images: %w", err)
	}
	file := filepath.Join(folder, listFile)
	err = os.WriteFile(file+".partial", append(data, '\n'), 0o644)
	if err == nil {
		err = os.Rename(file+".partial", file)
	}
	if err != nil {
		return fmt.Errorf("writing the list of images: %w", err)
	}
	return nil
}

// print writes a line for each image.
func (l list) print(out io.Writer) error {
	for _, i := range l.Images {
		standsFor := ""
		if len(i.StandsFor) > 0 {
			standsFor = "  also as " + strings.Join(i.StandsFor, ", ")
		}
		own := i.Names[:len(i.Names)-len(i.StandsFor)]
		if _, err := fmt.Fprintf(out, "%-12s %4d MB  %s  %s%s\n", i.File, (i.Bytes+500_000)/1_000_000, i.Digest,
			strings.Join(own, ", "), standsFor); err != nil {
			return fmt.Errorf("printing the list of images: %w", err)
		}
	}
	return nil
}

// describe returns the entry of an image with these packages, without what is known after the build. It fails if Debian has
// another version than the table says.
func (b baseImage) describe(packages []deb.Package, program string) (listed, error) {
	l := listed{File: b.name + ".tar"}
	sum := sha256.New()
	fmt.Fprintln(sum, program, runtime.GOARCH)
	for _, p := range packages {
		fmt.Fprintln(sum, p.File)
		l.Packages = append(l.Packages, p.Name+" "+p.Version)
		if len(b.packages) > 0 && p.Name == b.packages[0] {
			l.Version = upstream(p.Version)
		}
	}
	l.Key = hex.EncodeToString(sum.Sum(nil))
	for n, tag := range b.tags {
		name := b.name + ":" + tag
		switch is := len(b.packages) == 0 || isVersion(l.Version, tag); {
		case is && len(l.StandsFor) > 0:
			return listed{}, fmt.Errorf("%s is of version %s: put the tag %s before those of other versions", b.name, l.Version, tag)
		case !is && n == 0:
			return listed{}, fmt.Errorf("the packages are those of Debian 12 with %s, and apt has version %s", name, l.Version)
		case !is:
			l.StandsFor = append(l.StandsFor, name)
		}
		l.Names = append(l.Names, name)
	}
	return l, nil
}

// upstream returns the version of a package without its epoch and revision.
func upstream(version string) string {
	if _, rest, ok := strings.Cut(version, ":"); ok {
		version = rest
	}
	version, _, _ = strings.Cut(version, "-")
	return version
}

// isVersion reports whether a tag is a version, or the beginning of one, followed by a variant or not.
func isVersion(version, tag string) bool {
	tag, _, _ = strings.Cut(tag, "-")
	return strings.HasPrefix(version+".", tag+".")
}

// programDigest returns a digest of this program, which has all that determines an image beside its packages.
func programDigest() (string, error) {
	file, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
