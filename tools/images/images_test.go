package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// root is the root of the repository.
const root = "../.."

// operator is a small operator that compiles quickly.
const operator = "testdata/operators/tiny"

// built returns the folder with the image that all tests share, and the output of the command.
func built(t *testing.T) (folder, printed string) {
	t.Helper()
	folder = t.TempDir()
	var out strings.Builder
	if err := run(t.Context(), []string{"build", "-o", folder, "-version", "1.2.3", operator}, &out); err != nil {
		t.Fatal(err)
	}
	return folder, out.String()
}

// indexIn returns the only image in a layout, which has that name.
func indexIn(t *testing.T, folder, name string) v1.ImageIndex {
	t.Helper()
	all, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("the layout has %d images", len(manifest.Manifests))
	}
	if ref := manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; ref != name+":1.2.3" {
		t.Errorf("the image is called %q", ref)
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// files returns the files in the layers of an image.
func files(t *testing.T, image v1.Image) map[string][]byte {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(content); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() > 0 || h.Mode&0o022 != 0 {
				t.Errorf("%s is of %d:%d with mode %o, and from %v", h.Name, h.Uid, h.Gid, h.Mode, h.ModTime)
			}
			if h.Typeflag == tar.TypeReg {
				if all[h.Name], err = io.ReadAll(r); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return all
}

// An image runs on its architecture, as an unprivileged user, and has root certificates.
func TestImage(t *testing.T) {
	t.Parallel()
	folder, _ := built(t)
	index := indexIn(t, filepath.Join(folder, "tiny"), "tiny")
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for _, d := range manifest.Manifests {
		machine, ok := machines[d.Platform.Architecture]
		if !ok || d.Platform.OS != "linux" {
			t.Errorf("there is an image for %v", d.Platform)
		}
		delete(machines, d.Platform.Architecture)
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, d.Platform.Architecture, machine)
	}
	if len(machines) > 0 {
		t.Errorf("there is none for %v", machines)
	}
}

func checkImage(t *testing.T, image v1.Image, arch string, machine elf.Machine) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if config.Architecture != arch || c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/operator"}) {
		t.Errorf("%s: the configuration is %+v", arch, config)
	}
	if c.Labels["org.opencontainers.image.version"] != "1.2.3" || c.Labels["org.opencontainers.image.title"] != "tiny" {
		t.Errorf("%s: the labels are %v", arch, c.Labels)
	}
	content := files(t, image)
	if len(content) != 2 {
		t.Errorf("%s: it has %d files", arch, len(content))
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(content["etc/ssl/certs/ca-certificates.crt"]) {
		t.Errorf("%s: there are no certificates", arch)
	}
	checkProgram(t, content["operator"], arch, machine)
}

func checkProgram(t *testing.T, data []byte, arch string, machine elf.Machine) {
	t.Helper()
	program, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	dynamic := slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if program.Machine != machine || dynamic {
		t.Errorf("%s: the program is for %v, and dynamic: %t", arch, program.Machine, dynamic)
	}
	if arch != runtime.GOARCH || runtime.GOOS != "linux" {
		return
	}
	file := filepath.Join(t.TempDir(), "operator")
	if err := os.WriteFile(file, data, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), file, "--version").CombinedOutput()
	if err != nil || string(out) != "tiny 1.2.3\n" {
		t.Errorf("it says %q, %v", out, err)
	}
}

// The archive has the files of the folder.
func TestArchive(t *testing.T) {
	t.Parallel()
	folder, _ := built(t)
	file, err := os.Open(filepath.Join(folder, "tiny.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unpacked := t.TempDir()
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		to := filepath.Join(unpacked, filepath.FromSlash(h.Name))
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := indexIn(t, filepath.Join(folder, "tiny"), "tiny").Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := indexIn(t, unpacked, "tiny").Digest(); err != nil || got != want {
		t.Errorf("the archive has %v, %v, and the folder %v", got, err, want)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 2 {
		t.Errorf("there are %v, %v", left, err)
	}
}

// Two builds from different folders give one image.
func TestReproducible(t *testing.T) {
	_, here := built(t)
	for name, value := range map[string]string{
		"GOAMD64": "v3", "GOARM64": "v9.0", "GOEXPERIMENT": "arenas", "GOFLAGS": "-tags=other", "GOFIPS140": "latest",
	} {
		t.Setenv(name, value)
	}
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	var there strings.Builder
	args := []string{"build", "-o", t.TempDir(), "-version", "1.2.3", filepath.Join(copied, "operators/tiny")}
	if err := run(t.Context(), args, &there); err != nil {
		t.Fatal(err)
	}
	if here != there.String() || !strings.HasPrefix(here, "homeostat/tiny@sha256:") {
		t.Errorf("one is %s and the other %s", here, there.String())
	}
}

// The image of an operator of another repository has the name and the source of the flags, and not those of its folder. It
// claims no license.
func TestOtherProject(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkout")
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	// Such an operator finds the SDK by its workspace, and has no replace directive.
	elsewhere := filepath.Join(dir, "operators/tiny")
	mod := "module example.com/tiny\n\ngo 1.26.0\n\nrequire github.com/homeostat-dev/homeostat/sdk v0.0.0\n"
	work := "go 1.26.0\n\nuse .\n\nreplace github.com/homeostat-dev/homeostat/sdk => ../../sdk\n"
	for name, content := range map[string]string{"go.mod": mod, "go.work": work} {
		if err := os.WriteFile(filepath.Join(elsewhere, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder := t.TempDir()
	args := []string{
		"build", "-o", folder, "-version", "1.2.3", "-name", "shop", "-prefix", "registry.invalid/",
		"-source", "https://example.com/shop", elsewhere,
	}
	var out strings.Builder
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	manifest, err := indexIn(t, filepath.Join(folder, "shop"), "shop").IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"org.opencontainers.image.title": "shop", "org.opencontainers.image.version": "1.2.3",
		"org.opencontainers.image.source": "https://example.com/shop",
	}
	if !maps.Equal(manifest.Annotations, want) || !strings.HasPrefix(out.String(), "registry.invalid/shop@sha256:") {
		t.Errorf("it prints %q, and the annotations are %v, want %v", out.String(), manifest.Annotations, want)
	}
	if err := run(t.Context(), append(args, operator), io.Discard); err == nil {
		t.Error("two operators have one name")
	}
}

// The registry has the complete image, under the requested name.
func TestPush(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	to := strings.TrimPrefix(server.URL, "http://") + "/team/"
	var out strings.Builder
	args := []string{"push", "-o", t.TempDir(), "-to", to, "-version", "1.2.3", operator}
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(to + "tiny:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil || out.String() != to+"tiny@"+digest.String()+"\n" {
		t.Errorf("it prints %q, and there is %v, %v", out.String(), digest, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if got := files(t, image); len(got) != 2 {
			t.Errorf("%v has %d files there", d.Platform, len(got))
		}
	}
}

// Invalid arguments give a message that names the cause, and leave no files.
func TestErrors(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for want, args := range map[string][]string{
		"usage: images build": {},
		"images push -to":     {"push", "-o", "x", operator},
		"images base -o":      {"base", "OUT"},
		"no such file":        {"build", "-o", "OUT", filepath.Join(empty, "nothing")},
		"compiling for amd64": {"build", "-o", "OUT", empty},
		"cannot be the name":  {"push", "-o", "OUT", "-to", "Not A Name/", operator},
	} {
		out := t.TempDir()
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "OUT", out)
		}
		err := run(t.Context(), args, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := t.TempDir()
	if err := run(ctx, []string{"build", "-o", out, operator}, io.Discard); err == nil {
		t.Error("it goes on when it is told to end")
	}
	if left, _ := os.ReadDir(out); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// A Dockerfile builds the same image.
func TestDockerfiles(t *testing.T) {
	t.Parallel()
	dirs, err := fs.Glob(os.DirFS(root), "operators/*/Dockerfile")
	if err != nil || len(dirs) == 0 {
		t.Fatal("there are none", err)
	}
	for _, file := range dirs {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "\\\n", "")
		text = strings.Join(strings.Fields(text), " ")
		title := filepath.Base(filepath.Dir(file))
		for _, want := range []string{
			"CGO_ENABLED=0 GOWORK=off", "go build " + strings.Join(quoted(flags("$VERSION")), " ") + " -o " + program + " ./cmd",
			"FROM scratch COPY --from=build " + certificates + " /etc/ssl/certs/ " +
				"COPY --from=build " + program + " " + program + " ARG",
			"USER " + user + " ENTRYPOINT [\"" + program + "\"]",
			`LABEL org.opencontainers.image.title="` + title + `" org.opencontainers.image.version="$VERSION" ` +
				`org.opencontainers.image.source="` + homeostat.source + `" ` +
				`org.opencontainers.image.licenses="` + homeostat.licenses + `" USER`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not have: %s", file, want)
			}
		}
	}
}

// The linker's variable exists in the SDK: the linker does not report unknown variables.
func TestLinkedVersion(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "sdk/program/version.go"))
	if _, name, _ := strings.Cut(versionVariable, "program."); err != nil || !strings.Contains(string(data),
		"\nvar "+name+" string\n") {
		t.Errorf("sdk/program/version.go has no %s, %v", name, err)
	}
}

func quoted(args []string) []string {
	var all []string
	for _, arg := range args {
		if flag, value, ok := strings.Cut(arg, "="); ok && strings.Contains(value, " ") {
			arg = flag + `="` + value + `"`
		}
		all = append(all, arg)
	}
	return all
}
