package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/homeostat-dev/homeostat/tools/images/archive"
	"github.com/homeostat-dev/homeostat/tools/images/deb"
)

// requireDebian skips a test of `make test/images-base` where it cannot run.
func requireDebian(t *testing.T, programs ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test/images-base runs it: it downloads packages and starts servers")
	}
	if err := deb.Available(); err != nil {
		t.Skip(err)
	}
	if release, _ := os.ReadFile("/etc/os-release"); !strings.Contains(string(release), "VERSION_CODENAME=bookworm") {
		t.Skip("the packages are those of Debian 12, and this machine has another system")
	}
	if len(programs) > 0 && os.Geteuid() != 0 {
		t.Skip("containers are run by root only: namespaces, mounts and other users")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the test needs %s, and this machine does not have it", program)
		}
	}
}

// base is the folder that all tests share, and base.err the error of the build.
var base struct {
	once   sync.Once
	folder string
	err    error
}

// baseFolder returns the folder with the base images.
func baseFolder(t *testing.T) string {
	t.Helper()
	base.once.Do(func() {
		folder, err := os.MkdirTemp("", "images") //nolint:usetesting // of all tests
		if err == nil {
			err = run(t.Context(), []string{"base", "-o", folder}, io.Discard)
		}
		base.folder = folder
		base.err = err
	})
	if base.err != nil {
		t.Fatal(base.err)
	}
	return base.folder
}

func TestMain(m *testing.M) {
	code := m.Run()
	if base.folder != "" {
		_ = os.RemoveAll(base.folder)
	}
	os.Exit(code)
}

// Two builds in different folders give the same images and the same list, and a third one in the folder of the second builds
// nothing. Of concurrent builds in one folder, one builds. A missing image alone is built again.
func TestRealReproducible(t *testing.T) {
	requireDebian(t)
	want := readFile(t, filepath.Join(baseFolder(t), listFile))
	for name, value := range map[string]string{"TZ": "Asia/Tokyo", "LANG": "de_DE.UTF-8", "GOFLAGS": "-tags=x"} {
		t.Setenv(name, value)
	}
	folder := t.TempDir()
	var outputs [2]strings.Builder
	var all sync.WaitGroup
	for i := range outputs {
		all.Go(func() {
			if err := run(t.Context(), []string{"base", "-o", folder}, &outputs[i]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if diff := gocmp.Diff(want, readFile(t, filepath.Join(folder, listFile))); diff != "" {
		t.Errorf("-first +second:\n%s", diff)
	}
	both := outputs[0].String() + outputs[1].String()
	if strings.Count(both, "built 6 of 6 images") != 1 || strings.Count(both, "built 0 of 6 images") != 1 {
		t.Errorf("concurrent builds print\n%s", both)
	}
	began := time.Now()
	checkBuild(t, folder, "built 0 of 6 images")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("with nothing to build it takes %v", took)
	}
	if err := os.Remove(filepath.Join(folder, "pause.tar")); err != nil {
		t.Fatal(err)
	}
	checkBuild(t, folder, "built 1 of 6 images")
	if diff := gocmp.Diff(want, readFile(t, filepath.Join(folder, listFile))); diff != "" {
		t.Errorf("-first +repaired:\n%s", diff)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != len(baseImages)+1 {
		t.Errorf("there are %v, %v", left, err)
	}
}

// checkBuild builds, and checks the number of images that were built.
func checkBuild(t *testing.T, folder, want string) {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), []string{"base", "-o", folder}, &out); err != nil || !strings.Contains(out.String(), want) {
		t.Errorf("%v, without %q it prints\n%s", err, want, out.String())
	}
}

// The list of the folder says the same as the archives, and the servers share a layer.
func TestRealList(t *testing.T) {
	requireDebian(t)
	folder := baseFolder(t)
	var l list
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join(folder, listFile))), &l); err != nil {
		t.Fatal(err)
	}
	images, err := archive.List(folder)
	if err != nil || len(images) != len(l.Images) {
		t.Fatalf("there are %v, %v", images, err)
	}
	first := map[string]int{} // layers by digest
	for _, i := range l.Images {
		at := slices.IndexFunc(images, func(a archive.Image) bool { return filepath.Base(a.File) == i.File })
		if at < 0 || images[at].Digest != i.Digest || !slices.Equal(images[at].Names, i.Names) {
			t.Errorf("%s is %+v in the list, and the archives are %+v", i.File, i, images)
			continue
		}
		image, _ := unpacked(t, i.File)
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		digest, err := layers[0].Digest()
		if err != nil {
			t.Fatal(err)
		}
		first[digest.String()]++
	}
	if counts := slices.Sorted(maps.Values(first)); !slices.Equal(counts, []int{1, 1, 4}) {
		t.Errorf("the images have the first layers %v", first)
	}
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// unpacked returns an image, and its archive as a folder.
func unpacked(t *testing.T, file string) (v1.Image, string) {
	t.Helper()
	dir := t.TempDir()
	command(t, "tar", "-xf", filepath.Join(baseFolder(t), file), "-C", dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image, dir
}

// command runs a program of the machine.
func command(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

// A container is an unpacked image.
type container struct {
	t      *testing.T
	root   string
	config v1.Config
}

// newContainer unpacks an image.
func newContainer(t *testing.T, name string) *container {
	t.Helper()
	requireDebian(t, "unshare", "chroot", "mount", "ip", "curl", "tar")
	image, _ := unpacked(t, name+".tar")
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	tar := exec.CommandContext(t.Context(), "tar", "-xp", "--numeric-owner", "-C", root)
	tar.Stdin = content
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("unpacking the image: %v\n%s", err, out)
	}
	c := &container{t: t, root: root, config: config.Config}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	c.write("etc/hosts", "127.0.0.1 localhost "+host+"\n") // as every container runtime does
	return c
}

// write writes a file into the image.
func (c *container) write(name, text string) {
	c.t.Helper()
	file := filepath.Join(c.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// isolate makes the root read-only but for the volumes, if there are any, and has a network with a loopback interface only.
const isolate = `set -euo pipefail
ip link set lo up
for volume in $VOLUMES; do mkdir -p "$ROOT$volume"; done
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,$MODE "$ROOT"
mount -t proc none "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
for volume in $VOLUMES; do mount -t tmpfs -o mode=0770,uid="$OWNER",gid="$OWNER" volume "$ROOT$volume"; done
inside() { chroot --userspec="$OWNER:$OWNER" "$ROOT" "$@"; }
serve() { exec chroot --userspec="$OWNER:$OWNER" "$ROOT" "$@"; } # in the background, so that signals reach the program
`

// run runs a script on this machine, in namespaces of its own. The script runs programs of the image with inside, as the
// user and with the environment of the image. It returns the output.
func (c *container) run(script, volumes string, env ...string) string {
	c.t.Helper()
	const limit = 3 * time.Minute
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	owner, _, _ := strings.Cut(cmp.Or(c.config.User, "0"), ":")
	mode := "rw"
	if volumes != "" {
		mode = "ro"
	}
	cmd := exec.CommandContext(ctx, "unshare", append([]string{
		"--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "bash", "-c", isolate + script, "test",
	}, append(c.config.Entrypoint, c.config.Cmd...)...)...)
	own := []string{"ROOT=" + c.root, "VOLUMES=" + volumes, "OWNER=" + owner, "MODE=" + mode}
	cmd.Env = slices.Concat(c.config.Env, own, env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// Without lists of packages, the error says what to do, and nothing is left.
func TestRealErrors(t *testing.T) {
	requireDebian(t)
	config := filepath.Join(t.TempDir(), "apt.conf")
	if err := os.WriteFile(config, []byte("Dir::State::lists \""+t.TempDir()+"\";\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("APT_CONFIG", config)
	folder := t.TempDir()
	err := run(t.Context(), []string{"base", "-o", folder}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "apt-get update") || !strings.Contains(err.Error(), "package base-files") {
		t.Errorf("%v without lists", err)
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
