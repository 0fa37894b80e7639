package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// What an image is, and the Dockerfile says, too.
const (
	repository   = "homeostat/" // without a registry, which whoever pushes chooses
	source       = "https://github.com/homeostat-dev/homeostat"
	user         = "65532:65532"
	program      = "/operator"
	certificates = "/etc/ssl/certs/ca-certificates.crt"
	licenses     = "Apache-2.0"
)

// architectures are those that an image is for.
var architectures = []string{"amd64", "arm64"}

// build makes the image of the operator in a folder, for all architectures.
func build(ctx context.Context, dir, version string) (v1.ImageIndex, error) {
	name := filepath.Base(filepath.Clean(dir))
	annotations := map[string]string{
		"org.opencontainers.image.title":    name,
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.source":   source,
		"org.opencontainers.image.licenses": licenses,
	}
	roots, err := layer(certificates, 0o644, authorities())
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		binary, err := compile(ctx, dir, arch, version)
		if err != nil {
			return nil, err
		}
		executable, err := layer(program, 0o755, binary)
		if err != nil {
			return nil, err
		}
		image, err := assemble(arch, annotations, roots, executable)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return mutate.Annotations(index, annotations).(v1.ImageIndex), nil //nolint:forcetypeassert // it returns what it is given
}

// compile returns the program of the operator.
func compile(ctx context.Context, dir, arch, version string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "images")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the program: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	file := filepath.Join(tmp, "operator")
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags(version)...), "-o", file, "./cmd")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling for %s: %w\n%s", arch, err, bytes.TrimSpace(out))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	return data, nil
}

// flags are those of the compiler.
func flags(version string) []string {
	return []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w -X " + linked + "=" + version}
}

// linked is the variable that has the version.
const linked = "github.com/homeostat-dev/homeostat/sdk.linkedVersion"

// authorities are the certificates by which an operator knows servers of others.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a bytes.Buffer takes all
	}
	return b.Bytes()
}

// layer is one file, and the folders that it is in.
func layer(name string, mode int64, data []byte) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	name = strings.TrimPrefix(name, "/")
	var folders []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		folders = append([]string{dir}, folders...)
	}
	for _, dir := range folders {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
			return nil, fmt.Errorf("writing a layer: %w", err)
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return nil, fmt.Errorf("writing a layer: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("writing a layer: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("writing a layer: %w", err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("compressing a layer: %w", err)
	}
	return l, nil
}

// assemble makes the image for one architecture.
func assemble(arch string, labels map[string]string, layers ...v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(image, layers...)
	if err != nil {
		return nil, fmt.Errorf("adding the layers: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	file.Config = v1.Config{User: user, Entrypoint: []string{program}, Labels: labels}
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return mutate.Annotations(image, labels).(v1.Image), nil //nolint:forcetypeassert // it returns what it is given
}
