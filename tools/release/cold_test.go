package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A rehearsal works with an empty module cache, and takes the released modules only from its folder, even if GOPRIVATE
// matches other modules. The proxy has the required module from the cache of this machine.
func TestColdCache(t *testing.T) {
	f := newFixture(t)
	const other = "golang.org/x/mod v0.39.0" // in the cache, because this program requires it
	var sums []string
	for line := range strings.Lines(f.read("go.sum")) {
		if strings.HasPrefix(line, other) {
			sums = append(sums, line)
		}
	}
	f.write("sdk/go.mod", f.read(filepath.Join(f.root, "sdk/go.mod"))+"\nrequire "+other+"\n")
	f.write("sdk/go.sum", strings.Join(sums, ""))
	f.write("sdk/other.go", "package sdk\n\nimport _ \"golang.org/x/mod/semver\"\n")
	operator := "operators/configrollout/"
	f.write(operator+"go.mod", f.read(filepath.Join(f.root, operator, "go.mod"))+"\nrequire "+other+" // indirect\n")
	f.write(operator+"go.sum", strings.Join(sums, ""))
	f.commit()

	warm, err := command{}.run(t.Context(), "go", "env", "GOMODCACHE")
	if err != nil {
		t.Fatal(err)
	}
	r := rehearsal{
		root: f.root, version: "0.2.0", repository: "github.com/homeostat-dev/homeostat",
		folder: t.TempDir(), scratch: t.TempDir(),
	}
	if r.modules, err = loadModules(f.root, []string{"sdk", "operators/configrollout"}); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"GOMODCACHE": t.TempDir(), "GOPROXY": "file://" + filepath.Join(warm, "cache", "download"), "GOFLAGS": "-modcacherw",
		"GOPRIVATE": "github.com/homeostat-dev", "GONOPROXY": "github.com/homeostat-dev", "GOSUMDB": "off",
	} {
		t.Setenv(name, value)
	}
	if err := errors.Join(os.Mkdir(r.temp("git"), 0o755), os.Mkdir(r.temp("outside"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := r.makeModules(t.Context()); err != nil {
		t.Fatal(err)
	}
}
