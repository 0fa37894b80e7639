package realnodes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/blang/semver/v4"
	image "github.com/google/go-containerregistry/pkg/v1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/homeostat-dev/homeostat/bundle"
	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
	"github.com/homeostat-dev/homeostat/tools/images/archive"
	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// releases are the versions of the operators whose images the nodes have.
type releases struct {
	fixture.Versions

	temporary string            // a folder
	bundles   map[string]string // folders by image
	programs  map[string]string // images of operators, with digests, by the image of the bundle
}

// bundleImage returns the name of the image of a bundle, as in the templates.
func bundleImage(operator, version string) string {
	return olm.Repository + operator + "-bundle:v" + version
}

// catalogImage returns the name of the image of a catalog with all versions up to one.
func catalogImage(last string) string { return olm.Repository + "catalog:v" + last }

// makeImages makes all images in the folder that the nodes read: OLM, operators, bundles and catalogs.
func makeImages(ctx context.Context) (*releases, error) {
	r := &releases{bundles: map[string]string{}, programs: map[string]string{}}
	var err error
	if r.Versions, err = fixture.NewVersions(released, bundles); err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(images), os.MkdirAll(images, 0o755)); err != nil {
		return nil, err
	}
	if r.temporary, err = os.MkdirTemp("", "olm"); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(r.temporary) }()
	if err := r.makeOLM(ctx); err != nil {
		return nil, err
	}
	for _, operator := range []string{immortal, mailbox} {
		for _, version := range []string{r.Previous, r.Current} {
			if err := r.makeOperator(ctx, operator, version); err != nil {
				return nil, fmt.Errorf("making the images of %s %s: %w", operator, version, err)
			}
		}
	}
	for _, version := range []string{r.Previous, r.Current} {
		if err := r.makeCatalog(ctx, version); err != nil {
			return nil, fmt.Errorf("making the catalog with %s: %w", version, err)
		}
	}
	return r, nil
}

// add writes an image into the folder that the nodes read.
func (r *releases) add(name string, i image.Image) error {
	annotations, err := archive.Annotations(name)
	if err != nil {
		return err
	}
	file := strings.NewReplacer("/", "-", ":", "-").Replace(name) + ".tar"
	return oci.WriteArchive(i, filepath.Join(images, file), annotations)
}

func (r *releases) makeOLM(ctx context.Context) error {
	built, err := v0.Build(ctx, programsV0, notify)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(baseImages, "busybox*.tar"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("make images-base makes the image of busybox: there are %q, %w", files, err)
	}
	base, err := oci.ReadArchive(files[0], filepath.Join(r.temporary, "base"))
	if err != nil {
		return err
	}
	all, err := v0.Images(built, base)
	if err != nil {
		return err
	}
	for name, i := range all {
		if err := r.add(name, i); err != nil {
			return err
		}
	}
	return nil
}

// makeOperator makes the images of a version of an operator and of its bundle. The bundle is the current or the released
// one, with the digest of this image in place of that of the release.
func (r *releases) makeOperator(ctx context.Context, operator, version string) error {
	program, err := r.program(ctx, operator, version)
	if err != nil {
		return err
	}
	name := olm.Repository + operator
	i, err := operatorImage(program, version)
	if err != nil {
		return err
	}
	if err := r.add(name+":"+version, i); err != nil {
		return err
	}
	digest, err := i.Digest()
	if err != nil {
		return err
	}
	ref := bundleImage(operator, version)
	r.programs[ref] = name + "@" + digest.String()
	r.bundles[ref] = filepath.Join(images, operator+"-bundle-"+version)
	if err := r.writeBundle(operator, version); err != nil {
		return err
	}
	if i, err = olm.BundleImage(r.bundles[ref]); err != nil {
		return err
	}
	return r.add(ref, i)
}

// program compiles a version of an operator. The operator with webhooks was never released: its versions differ by their
// images alone.
func (r *releases) program(ctx context.Context, operator, version string) (string, error) {
	dir := filepath.Join(operators, operator)
	if operator == mailbox {
		dir = mailboxDir
	} else if version == r.Previous {
		former := programs.PreviousRelease{Released: released, Notice: notify}
		project, err := former.Project(ctx, operator, "v"+version)
		if err != nil {
			return "", err
		}
		if project != nil { // in a shallow clone, the current program replaces it
			return project.Build(ctx)
		}
	}
	project, err := sandbox.Load(ctx, dir)
	if err != nil {
		return "", err
	}
	return project.Build(ctx)
}

// operatorImage makes the image of an operator as make images does, for this machine alone and without certificates.
func operatorImage(program, version string) (image.Image, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	const file = "/operator"
	layer, err := oci.UncompressedLayer(oci.File{Name: file, Mode: 0o755, Data: data})
	if err != nil {
		return nil, err
	}
	return oci.Image(runtime.GOARCH, image.Config{
		User: "65532:65532", Entrypoint: []string{file}, Labels: map[string]string{"org.opencontainers.image.version": version},
	}, layer)
}

// digests match the digests of images in a bundle.
var digests = regexp.MustCompile(`@sha256:[0-9a-f]{64}`)

func (r *releases) writeBundle(operator, version string) error {
	ref := bundleImage(operator, version)
	dir, program := r.bundles[ref], r.programs[ref]
	if operator == mailbox {
		b, err := bundle.Render(mailboxDir, program)
		if err != nil {
			return err
		}
		b.CSV.Name = b.Package + ".v" + version
		b.CSV.Spec.Version.Version = semver.MustParse(version)
		return b.Write(dir)
	}
	from, err := olm.BundlesIn(released, bundles)(ref)
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		return err
	}
	csv := filepath.Join(dir, "manifests", operator+"-operator.clusterserviceversion.yaml")
	data, err := os.ReadFile(csv)
	if err != nil {
		return err
	}
	_, digest, _ := strings.Cut(program, "@")
	return os.WriteFile(csv, digests.ReplaceAll(data, []byte("@"+digest)), 0o644)
}

// catalogs renders the catalog of each operator from the template of the project, with all versions up to one.
func (r *releases) catalogs(ctx context.Context, last string) (map[string]*declcfg.DeclarativeConfig, error) {
	template, err := os.ReadFile(filepath.Join(templates, immortal+".yaml"))
	if err != nil {
		return nil, err
	}
	all := map[string]*declcfg.DeclarativeConfig{}
	for _, operator := range []string{immortal, mailbox} {
		end := []byte("-bundle:v" + last + "\n")
		before, _, found := bytes.Cut(bytes.ReplaceAll(template, []byte(immortal), []byte(operator)), end)
		if !found {
			return nil, fmt.Errorf("the template of %s has no version %s", immortal, last)
		}
		file := filepath.Join(images, "template-"+operator+".yaml")
		if err := os.WriteFile(file, append(before, end...), 0o644); err != nil {
			return nil, err
		}
		if all[operator], err = olm.Render(ctx, file, r.find, olm.Published); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// find returns the folder of a bundle by its image.
func (r *releases) find(ref string) (string, error) {
	if dir := r.bundles[ref]; dir != "" {
		return dir, nil
	}
	return "", fmt.Errorf("there is no bundle %s", ref)
}

// makeCatalog makes the image of a catalog of both operators.
func (r *releases) makeCatalog(ctx context.Context, last string) error {
	all, err := r.catalogs(ctx, last)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.temporary, last)
	for operator, catalog := range all {
		folder := filepath.Join(dir, operator)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		var text bytes.Buffer
		if err := declcfg.WriteYAML(*catalog, &text); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "catalog.yaml"), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	i, err := olm.CatalogImage(dir)
	if err != nil {
		return err
	}
	return r.add(catalogImage(last), i)
}
