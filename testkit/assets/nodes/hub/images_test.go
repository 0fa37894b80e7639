//go:build linux

package hub

import (
	"archive/tar"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/image"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// program returns an image of a file with this content.
func program(t *testing.T, content string) v1.Image {
	t.Helper()
	made, err := image.FromProgram("program", []byte(content))
	check(t, err)
	return made
}

// writeArchive writes an image and an index of two images into an archive.
func writeArchive(t *testing.T, dir string) {
	t.Helper()
	source := t.TempDir()
	path, err := layout.Write(source, empty.Index)
	check(t, err)
	named := func(name string) layout.Option { return layout.WithAnnotations(map[string]string{imageName: name}) }
	check(t, path.AppendImage(program(t, "single"), named("single:1")))
	var index v1.ImageIndex = empty.Index
	for _, content := range []string{"first", "second"} {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: program(t, content)})
	}
	check(t, path.AppendIndex(index, named("example.com/team/several:2")))
	file, err := os.Create(filepath.Join(dir, "images.tar"))
	check(t, err)
	w := tar.NewWriter(file)
	check(t, w.AddFS(os.DirFS(source)))
	check(t, w.Close())
	check(t, file.Close())
}

// startRegistry serves the images of a folder.
func startRegistry(t *testing.T, images ...string) (*hub, *httptest.Server) {
	t.Helper()
	programs := t.TempDir()
	check(t, os.WriteFile(filepath.Join(programs, spec.Pause), []byte("pause"), 0o700))
	h := &hub{Network: &spec.Network{Programs: programs, Images: images}}
	check(t, h.newRegistry(t.TempDir()))
	server := httptest.NewServer(h.images)
	t.Cleanup(server.Close)
	return h, server
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	check(t, err)
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	check(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s", url, response.Status, data)
	}
	return string(data)
}

// The registry has the images of archives with those of their indexes, the image of pause, and those of programs.
func TestRegistry(t *testing.T) {
	dir := t.TempDir()
	writeArchive(t, dir)
	h, server := startRegistry(t, dir)
	check(t, h.addProgram("registry.invalid/pushed:dev", "program", []byte("pushed")))

	for repository, want := range map[string]string{
		"library/single/manifests/1": "single", "testkit/pause/manifests/1": "pause", "pushed/manifests/dev": "pushed",
	} {
		checkLayer(t, server.URL, repository, want)
	}
	text := fetch(t, server.URL+"/v2/team/several/manifests/2")
	index, err := v1.ParseIndexManifest(strings.NewReader(text))
	check(t, err)
	for i, want := range []string{"first", "second"} {
		checkLayer(t, server.URL, "team/several/manifests/"+index.Manifests[i].Digest.String(), want)
	}
}

// checkLayer compares the content of the only file in the only layer of an image.
func checkLayer(t *testing.T, server, manifest, want string) {
	t.Helper()
	m, err := v1.ParseManifest(strings.NewReader(fetch(t, server+"/v2/"+manifest)))
	check(t, err)
	repository, _, _ := strings.Cut(manifest, "/manifests/")
	r := tar.NewReader(strings.NewReader(fetch(t, server+"/v2/"+repository+"/blobs/"+m.Layers[0].Digest.String())))
	_, err = r.Next()
	check(t, err)
	content, err := io.ReadAll(r)
	check(t, err)
	if string(content) != want {
		t.Errorf("%s has %q instead of %q", manifest, content, want)
	}
	config := fetch(t, server+"/v2/"+repository+"/blobs/"+m.Config.Digest.String())
	if !strings.Contains(config, "Entrypoint") {
		t.Errorf("%s has the configuration %s", manifest, config)
	}
}

func TestRefusedArchives(t *testing.T) {
	for name, test := range map[string]struct {
		write func(w *tar.Writer)
		want  string
	}{
		"no layout": {func(w *tar.Writer) { writeFile(t, w, "manifest.json", "{}") }, "not an OCI layout"},
		"no layer": {func(w *tar.Writer) {
			writeFile(t, w, "index.json", `{"manifests": [{"digest": "sha256:`+strings.Repeat("0", 64)+`"}]}`)
		}, "is missing"},
		"no JSON": {func(w *tar.Writer) { writeFile(t, w, "index.json", "<") }, "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file, err := os.Create(filepath.Join(dir, "a.tar"))
			check(t, err)
			w := tar.NewWriter(file)
			test.write(w)
			check(t, w.Close())
			check(t, file.Close())
			if _, err := archives(dir); err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.Contains(err.Error(), "a.tar") {
				t.Errorf("%v lacks %q or the name of the file", err, test.want)
			}
		})
	}
	if _, err := archives(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no file *.tar") {
		t.Errorf("an empty folder: %v", err)
	}
}

func writeFile(t *testing.T, w *tar.Writer, name, content string) {
	t.Helper()
	check(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}))
	_, err := io.WriteString(w, content)
	check(t, err)
}

// A client reaches an address through the control socket.
func TestConnect(t *testing.T) {
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "here")
	}))
	defer echo.Close()
	proxy := httptest.NewServer(http.HandlerFunc(connect))
	defer proxy.Close()
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", proxy.Listener.Addr().String())
		if err == nil {
			_, err = io.WriteString(conn, "CONNECT "+address+" HTTP/1.1\r\nHost: "+address+"\r\n\r\n")
		}
		if err != nil {
			return nil, err
		}
		head := make([]byte, len("HTTP/1.1 200 OK\r\n\r\n"))
		_, err = io.ReadFull(conn, head)
		return conn, err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, echo.URL, nil)
	check(t, err)
	response, err := client.Do(request)
	check(t, err)
	defer func() { _ = response.Body.Close() }()
	if data, err := io.ReadAll(response.Body); err != nil || string(data) != "here" {
		t.Errorf("%q, %v", data, err)
	}
}
