package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// program runs a program of the repository that is a module of its own.
func (r *rehearsal) program(ctx context.Context, module, pkg string, env []string, args ...string) (string, error) {
	at := command{dir: filepath.Join(r.tools, module), env: append([]string{"GOWORK=off"}, env...)}
	return at.run(ctx, "go", append([]string{"run", pkg}, args...)...)
}

// folders returns the absolute folders of operators.
func (r *rehearsal) folders(operators []string) (all []string) {
	for _, operator := range operators {
		all = append(all, filepath.Join(r.root, operator))
	}
	return all
}

// makeImages builds the images, and compares them with the images in the committed bundles.
func (r *rehearsal) makeImages(ctx context.Context) error {
	args := append([]string{"build", "-o", r.path("images"), "-version", r.version}, r.folders(r.operators)...)
	out, err := r.program(ctx, "tools/images", ".", nil, args...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		ref, digest, _ := strings.Cut(strings.TrimSpace(line), "@")
		name := path.Base(ref)
		r.plan.Images = append(r.plan.Images, image{
			Name: name, Tags: append([]string{r.version}, r.latest()...), Digest: digest, Folder: "images/" + name,
		})
	}
	committed, err := os.ReadFile(filepath.Join(r.root, "bundle", "images.txt"))
	if err != nil {
		return fmt.Errorf("reading which images the bundles run: %w", err)
	}
	return checkImages(string(committed), r.plan.Images, r.version)
}

func (r *rehearsal) makeCharts(ctx context.Context) error {
	args := []string{
		"package", "-version", r.version, "-images", r.prefix, "-umbrella", path.Base(r.repository), "-o", r.path("charts"),
	}
	out, err := r.program(ctx, "tools/charts", ".", nil, append(args, r.folders(r.operators)...)...)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(out) {
		f, err := r.file("charts/" + filepath.Base(name))
		if err != nil {
			return err
		}
		r.plan.Charts = append(r.plan.Charts, f)
	}
	return nil
}

// bundled returns the operators that have a bundle.
func (r *rehearsal) bundled() (operators []string) {
	for _, operator := range r.operators {
		if _, err := os.Stat(filepath.Join(r.root, operator, "config", "manifests")); err == nil {
			operators = append(operators, operator)
		}
	}
	return operators
}

// makeBundles renders the bundles with the published names of the images, and builds an image of each.
func (r *rehearsal) makeBundles(ctx context.Context) error {
	operators := r.bundled()
	if len(operators) == 0 {
		return nil
	}
	var list strings.Builder
	for _, i := range r.plan.Images {
		fmt.Fprintf(&list, "%s%s@%s\n", r.prefix, i.Name, i.Digest)
	}
	if err := os.WriteFile(r.temp("images.txt"), []byte(list.String()), 0o644); err != nil {
		return fmt.Errorf("writing which images the bundles run: %w", err)
	}
	args := append([]string{"render", "-o", r.path("bundles"), "-images", r.temp("images.txt")}, r.folders(operators)...)
	if _, err := r.program(ctx, "bundle", "./cmd/bundle", nil, args...); err != nil {
		return err
	}
	check := []string{"check"}
	for _, operator := range operators {
		check = append(check, r.path("bundles", path.Base(operator)))
	}
	if _, err := r.program(ctx, "bundle", "./cmd/bundle", nil, check...); err != nil {
		return err
	}
	for _, dir := range check[1:] {
		name := filepath.Base(dir) + "-bundle"
		recipe, err := oci.ReadRecipe(filepath.Join(dir, "bundle.Dockerfile"))
		if err == nil {
			err = r.dataImage(dir, recipe, name, []string{"v" + r.version})
		}
		if err != nil {
			return fmt.Errorf("making the image of %s: %w", dir, err)
		}
	}
	return nil
}

// dataImage builds the image of a folder.
func (r *rehearsal) dataImage(dir string, recipe oci.Recipe, name string, tags []string) error {
	made, err := recipe.Make(dir)
	if err != nil {
		return err
	}
	if err := oci.Write(made, name+":"+tags[0], r.path("images", name)); err != nil {
		return err
	}
	digest, err := made.Digest()
	if err != nil {
		return fmt.Errorf("reading the digest: %w", err)
	}
	r.plan.Images = append(r.plan.Images, image{Name: name, Tags: tags, Digest: digest.String(), Folder: "images/" + name})
	return nil
}
