package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// A pushed chart can be pulled and installed, and pushing it again gives the same digest.
func TestPush(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	to := strings.TrimPrefix(server.URL, "http://") + "/team/charts/"
	files := packed(t)
	var once, again strings.Builder
	for _, out := range []*strings.Builder{&once, &again} {
		if err := run(append([]string{"push", "-to", to}, files...), out); err != nil {
			t.Fatal(err)
		}
	}
	printed := strings.Fields(once.String())
	if once.String() != again.String() || len(printed) != len(files) {
		t.Fatalf("it prints %s and then %s", &once, &again)
	}
	client, err := newClient(to)
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		want := archive(t, file)
		pulled, err := client.Pull(to + want.Name() + ":1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		if ref := to + want.Name() + "@" + pulled.Manifest.Digest; printed[i] != ref {
			t.Errorf("it prints %s, and there is %s", printed[i], ref)
		}
		if !strings.Contains(string(pulled.Manifest.Data), `"org.opencontainers.image.created":"1970-01-01T00:00:00Z"`) {
			t.Errorf("%s says when it was pushed: %s", want.Name(), pulled.Manifest.Data)
		}
		checkInstall(t, pulled.Chart.Data)
	}
	server.Close()
	for file, want := range map[string]string{files[0]: "pushing to " + to, "main.go": "reading the archive"} {
		if err := run([]string{"push", "-to", to, file}, &once); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s without a registry: %v, want %q", file, err, want)
		}
	}
}

// checkInstall expects a chart to install the operator of its version.
func checkInstall(t *testing.T, pulled []byte) {
	t.Helper()
	c, err := loader.LoadArchive(bytes.NewReader(pulled))
	if err != nil {
		t.Fatal(err)
	}
	operator, set := c.Name(), []string{}
	if len(c.Dependencies()) > 0 {
		operator, set = "database", []string{"database.enabled=true"}
	}
	objects, err := render(t, c, "default", set...)
	if err != nil {
		t.Fatal(err)
	}
	if image := container(find(t, objects, "Deployment"))["image"]; image != "elsewhere/team/"+operator+":1.2.3" {
		t.Errorf("what is pulled as %s runs %s", c.Name(), image)
	}
}

// Only a registry on the loopback interface is used without TLS.
func TestLoopback(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]bool{
		"127.0.0.1:5000/team/": true, "localhost:5000/": true, "[::1]:5000/x/": true, "registry.example.com/team/": false,
		"localhost.example.com/": false, "10.0.0.1:5000/": false,
	} {
		if got := loopback(to); got != want {
			t.Errorf("%s is on this machine: %t, want %t", to, got, want)
		}
	}
}
