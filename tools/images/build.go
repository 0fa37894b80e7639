package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// Contents of an image, as in the Dockerfile.
const (
	user         = "65532:65532"
	program      = "/operator"
	certificates = "/etc/ssl/certs/ca-certificates.crt"
)

// project describes the repository that an operator belongs to.
type project struct {
	name     string // of the only image; empty means the name of the operator's folder
	prefix   string // what comes before the name; the push replaces it
	source   string // a URL; may be empty
	licenses string // may be empty
	base     string // the folder of the base images, for a function in Python; otherwise empty
}

// homeostat is this repository.
var homeostat = project{
	prefix: "homeostat/", source: "https://github.com/homeostat-dev/homeostat", licenses: "Apache-2.0",
}

// labels returns the labels of an image, which are also its annotations.
func (p project) labels(name, version string) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":    name,
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.source":   p.source,
		"org.opencontainers.image.licenses": p.licenses,
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}

// architectures are the architectures of an image.
var architectures = []string{"amd64", "arm64"}

// build builds the image of the operator in a folder, for all architectures.
func build(ctx context.Context, p project, name, dir, version string) (v1.ImageIndex, error) {
	annotations := p.labels(name, version)
	roots, err := oci.Layer(oci.File{Name: certificates, Mode: 0o644, Data: rootCertificates()})
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		binary, err := compile(ctx, dir, arch, version)
		if err != nil {
			return nil, err
		}
		executable, err := oci.Layer(oci.File{Name: program, Mode: 0o755, Data: binary})
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
	return mutate.Annotations(index, annotations).(v1.ImageIndex), nil //nolint:forcetypeassert // it returns the type of its argument
}

// compile returns the program of the operator.
func compile(ctx context.Context, dir, arch, version string) ([]byte, error) {
	return compilePackage(ctx, dir, arch, workspace(dir), append(flags(version), "./cmd")...)
}

// compilePackage returns the program of the last argument of go build, which runs in a folder.
func compilePackage(ctx context.Context, dir, arch, workspace string, args ...string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "images")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the program: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	file := filepath.Join(tmp, "operator")
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", file}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK="+workspace, "GOOS=linux", "GOARCH="+arch,
		// The user's own settings would change the image. These are the defaults:
		"GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling for %s: %w\n%s", arch, err, bytes.TrimSpace(out))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	return data, nil
}

// workspace returns the value of GOWORK for the operator in a folder: the workspace of that folder, in which an operator of
// another repository names a checkout of the SDK, or off.
func workspace(dir string) string {
	file, err := filepath.Abs(filepath.Join(dir, "go.work"))
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		return "off"
	}
	return file
}

// flags returns the compiler's flags.
func flags(version string) []string {
	return []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w -X " + versionVariable + "=" + version}
}

// versionVariable is the variable that the linker sets to the version.
const versionVariable = "github.com/homeostat-dev/homeostat/sdk/program.linkedVersion"

// rootCertificates returns the certificates that operators verify servers with.
func rootCertificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a bytes.Buffer returns no error
	}
	return b.Bytes()
}

// assemble assembles the image for one architecture.
func assemble(arch string, labels map[string]string, layers ...v1.Layer) (v1.Image, error) {
	image, err := oci.Image(arch, v1.Config{User: user, Entrypoint: []string{program}, Labels: labels}, layers...)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, labels).(v1.Image), nil //nolint:forcetypeassert // it returns the type of its argument
}
