package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/homeostat-dev/homeostat/bundle"
)

// The images of a bundle and its catalog are written and pushed, and the catalog names the bundles in the registry.
func TestImages(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	to := strings.TrimPrefix(server.URL, "http://") + "/team/"
	dir := t.TempDir()
	version, err := bundle.Version("../../../bundle/configrollout")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = run(t.Context(), []string{
		"-o", filepath.Join(dir, "catalog"), "-released", "../../released", "-current", "../../../bundle",
		"-images", filepath.Join(dir, "images"), "-to", to, "../../templates/configrollout.yaml",
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("it prints %q", lines)
	}
	for i, image := range []string{"configrollout-bundle", "configrollout-catalog"} {
		if !strings.HasPrefix(lines[i], to+image+"@sha256:") {
			t.Errorf("it prints %s", lines[i])
		}
		if _, err := os.Stat(filepath.Join(dir, "images", image+".tar")); err != nil {
			t.Error(err)
		}
		digest := lines[i][strings.IndexByte(lines[i], '@')+1:]
		tags := []string{"v" + version, "latest"}
		for _, tag := range tags[:i+1] { // only the catalog has two
			ref, err := name.ParseReference(to + image + ":" + tag)
			if err != nil {
				t.Fatal(err)
			}
			if pushed, err := remote.Head(ref); err != nil || pushed.Digest.String() != digest {
				t.Errorf("%s: %v, %v, want %s", ref, pushed, err, digest)
			}
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "catalog", "configrollout", "catalog.yaml"))
	if err != nil || !strings.Contains(string(data), "\nimage: "+to+"configrollout-bundle:v"+version+"\n") {
		t.Errorf("%v: the catalog does not name the bundle in the registry", err)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	complete := []string{"-o", t.TempDir(), "-released", "../../released", "-current", "../../../bundle"}
	for reason, args := range map[string][]string{
		"a registry without images":     {"-to", "a/", "a.yaml"},
		"images of two operators":       {"-images", "a", "a.yaml", "b.yaml"},
		"images of a catalog for tests": {"-inline", "-images", "a", "a.yaml"},
		"no template":                   nil,
	} {
		err := run(t.Context(), slices.Concat(complete, args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), usage) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
