package main

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/rs/zerolog"

	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// makeSBOMs writes an SBOM of each image, for each architecture, in the format CycloneDX. The modules are read from the
// build information of the image's program. An SBOM contains no time and no serial number.
func (r *rehearsal) makeSBOMs(context.Context) error {
	if err := os.MkdirAll(r.path("sbom"), 0o755); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	for _, i := range r.plan.Images {
		read, err := oci.Read(r.path(i.Folder))
		if err != nil {
			return err
		}
		index, ok := read.(v1.ImageIndex)
		if !ok {
			return fmt.Errorf("the image of %s is not for several architectures", i.Name)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			return fmt.Errorf("reading the image of %s: %w", i.Name, err)
		}
		for _, d := range manifest.Manifests {
			one, err := index.Image(d.Digest)
			if err == nil {
				err = r.makeSBOM(one, i.Name, d.Platform.Architecture)
			}
			if err != nil {
				return fmt.Errorf("listing what is in the image of %s: %w", i.Name, err)
			}
		}
	}
	return nil
}

func (r *rehearsal) makeSBOM(image v1.Image, name, arch string) error {
	data, err := programIn(image)
	if err != nil {
		return err
	}
	program := r.temp(filepath.Join("programs", arch, name)) // its name is in the SBOM
	err = errors.Join(os.MkdirAll(filepath.Dir(program), 0o755), os.WriteFile(program, data, 0o755))
	if err != nil {
		return fmt.Errorf("taking the program out of the image: %w", err)
	}
	// Long package URLs contain the architecture of the build machine.
	generator, err := bin.NewGenerator(program, bin.WithIncludeStdlib(true), bin.WithVersionOverride("v"+r.version),
		bin.WithShortPURLS(true), bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	bom, err := generator.Generate()
	if err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom); err != nil {
		return fmt.Errorf("writing the list: %w", err)
	}
	names, err := r.ownNames(program)
	if err != nil {
		return err
	}
	list := []byte(names.Replace(text.String()))
	if err := os.WriteFile(r.path("sbom", name+"-linux-"+arch+".cdx.json"), list, 0o644); err != nil {
		return fmt.Errorf("writing the list: %w", err)
	}
	return nil
}

// ownNames returns a replacer that gives the repository's modules their names and the version of the release. Programs are
// compiled from folders, so their build information has the name of a module only, and no version.
func (r *rehearsal) ownNames(program string) (*strings.Replacer, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	pairs := []string{"(devel)", "v" + r.version, "%28devel%29", "v" + r.version}
	for _, m := range info.Deps {
		if m.Replace != nil {
			pairs = append(pairs, `"`+m.Replace.Path+`"`, `"`+m.Path+`"`, "pkg:golang/"+m.Replace.Path+"@", "pkg:golang/"+m.Path+"@")
		}
	}
	return strings.NewReplacer(pairs...), nil
}

// programIn returns the entry point of an image.
func programIn(image v1.Image) ([]byte, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, fmt.Errorf("reading the layers: %w", err)
	}
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			return nil, fmt.Errorf("reading a layer: %w", err)
		}
		for r := tar.NewReader(content); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("reading a layer: %w", err)
			}
			if len(config.Config.Entrypoint) == 1 && "/"+header.Name == config.Config.Entrypoint[0] {
				return io.ReadAll(r)
			}
		}
	}
	return nil, errors.New("it has no program")
}
