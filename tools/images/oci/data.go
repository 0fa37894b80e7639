package oci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// A Recipe is the content of an image without a program: folders, and labels.
type Recipe struct {
	// Folders maps folders below the source folder to folders in the image.
	Folders map[string]string
	Labels  map[string]string
}

// ReadRecipe reads a Recipe from a Dockerfile. It accepts FROM scratch, LABEL and COPY only.
func ReadRecipe(file string) (Recipe, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Recipe{}, fmt.Errorf("reading how an image is made: %w", err)
	}
	r := Recipe{Folders: map[string]string{}, Labels: map[string]string{}}
	for n, line := range strings.Split(string(data), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") || slices.Equal(words, []string{"FROM", "scratch"}) {
			continue
		}
		switch key, value, isLabel := strings.Cut(words[len(words)-1], "="); {
		case len(words) == 2 && words[0] == "LABEL" && isLabel:
			r.Labels[key] = value
		case len(words) == 3 && words[0] == "COPY":
			r.Folders[words[1]] = words[2]
		default:
			return Recipe{}, fmt.Errorf(
				"%s:%d: %q: an image without a program has FROM scratch, LABEL KEY=VALUE and COPY FROM TO alone",
				file, n+1, line)
		}
	}
	if len(r.Labels) == 0 || len(r.Folders) == 0 {
		return Recipe{}, fmt.Errorf("%s labels or copies nothing", file)
	}
	return r, nil
}

// Make builds the image from the files below a folder. It has one layer. Its platform is linux/amd64, which has no effect:
// nothing in it runs, and nodes of all architectures accept it.
func (r Recipe) Make(dir string) (v1.Image, error) {
	var files []File
	for from, to := range r.Folders {
		found, err := filesBelow(filepath.Join(dir, filepath.FromSlash(from)), strings.Trim(path.Clean(to), "/"))
		if err != nil {
			return nil, fmt.Errorf("reading what is in an image: %w", err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, errors.New("there is no file in the image of " + dir)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	layer, err := Layer(files...)
	if err != nil {
		return nil, err
	}
	return Image("amd64", v1.Config{Labels: r.Labels}, layer)
}

// filesBelow returns the files of a folder, with their paths below another one.
func filesBelow(dir, to string) (files []File, err error) {
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a folder", file)
		}
		relative, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		files = append(files, File{Name: path.Join(to, filepath.ToSlash(relative)), Mode: 0o644, Data: data})
		return nil
	})
	return files, err
}
