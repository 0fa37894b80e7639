package main

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// A release takes the steps of the workflow: rejected, rehearsed, rehearsed in another folder, published to a registry and a
// repository on this machine, and published again after an interruption. A second release follows.
func TestLife(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	to := strings.TrimPrefix(server.URL, "http://") + "/team/"
	f := newFixture(t)
	f.checkRejected("other images",
		"bundle/images.txt has sha256:0 of configrollout, and its image of version 0.2.0 is sha256:")
	f.withBundle("0.2.0")

	folder := filepath.Join(t.TempDir(), "release")
	if printed, err := f.rehearse(folder, "-to", to); err != nil || !strings.Contains(printed, "nothing is published yet") {
		t.Fatal(printed, err)
	}
	if status := f.git("status", "--porcelain") + f.git("tag"); status != "" {
		t.Errorf("the rehearsal has changed the repository: %s", status)
	}
	elsewhere := &fixture{t, filepath.Join(t.TempDir(), "clone")}
	f.git("clone", "--quiet", f.root, elsewhere.root)
	again := filepath.Join(t.TempDir(), "again")
	if _, err := elsewhere.rehearse(again, "-to", to); err != nil {
		t.Fatal(err)
	}
	if here, there := f.read(filepath.Join(folder, sumsFile)), f.read(filepath.Join(again, sumsFile)); here != there {
		t.Errorf("two rehearsals differ in %v", differing([]byte(here), []byte(there)))
	}
	p, err := readPlan(folder)
	if err != nil {
		t.Fatal(err)
	}
	checkPlan(t, p, f.git("rev-parse", "HEAD"))
	checkFiles(f, folder, to, p)
	checkDownloads(f, folder, p)
	checkSBOM(t, filepath.Join(folder, "sbom", "configrollout-linux-arm64.cdx.json"))
	runOutside(t, folder)

	bare := filepath.Join(t.TempDir(), "bare")
	f.git("init", "--quiet", "--bare", bare)
	f.git("remote", "add", "origin", bare)
	publish := []string{"publish", "-o", folder, "-root", f.root, "-tools", tools, "-to"}
	err = run(t.Context(), append(publish, "registry/"), io.Discard)
	checkError(t, "another registry", err, "was rehearsed for "+to+", and its bundles and charts name that")
	if err := os.WriteFile(filepath.Join(again, "charts", "more.tgz"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tampered := []string{"publish", "-o", again, "-root", f.root, "-tools", tools, "-to", to}
	checkError(t, "a file of others", run(t.Context(), tampered, io.Discard),
		"is not as the rehearsal left it (charts/more.tgz)")
	checkConflictsRejected(f, append(publish, to), p)
	f.git("tag", "--annotate", "--message", "The workflow starts here", "v0.2.0")
	f.git("push", "--quiet", "origin", "v0.2.0")
	checkPublish(f, append(publish, to), p)
	f.git("fetch", "--quiet", "--tags", "origin")
	f.checkRejected("once more",
		"version 0.2.0 is not greater than 0.2.0, which the tag operators/configrollout/v0.2.0 has released")
	f.write("new", "")
	f.commit()
	checkError(t, "another commit", run(t.Context(), append(publish, to), io.Discard),
		"check that one out, or rehearse this one")
	secondRelease(f, to)
}

func checkPlan(t *testing.T, p *plan, head string) {
	t.Helper()
	var tags []string
	for _, tag := range p.Tags {
		tags = append(tags, tag.Name)
		if on := map[bool]string{true: head, false: p.Commit}[tag.Name == "v0.2.0"]; tag.Commit != on || p.Commit == head {
			t.Errorf("%s is on %s, want %s", tag.Name, tag.Commit, on)
		}
	}
	if want := []string{"v0.2.0", "sdk/v0.2.0", "operators/configrollout/v0.2.0"}; !slices.Equal(tags, want) {
		t.Errorf("the tags are %v, want %v: what is required comes first", tags, want)
	}
	var images []string
	for _, i := range p.Images {
		images = append(images, i.Name+":"+strings.Join(i.Tags, "+"))
	}
	want := []string{"configrollout:0.2.0+latest", "configrollout-bundle:v0.2.0", "catalog:v0.2.0+latest"}
	if !slices.Equal(images, want) || len(p.Charts) != 2 {
		t.Errorf("there are the images %v, want %v; and the charts %v", images, want, p.Charts)
	}
}

// checkFiles expects the installed objects to run the built image under its published name.
func checkFiles(f *fixture, folder, to string, p *plan) {
	f.t.Helper()
	source := "extractContent:\n      catalogDir: /configs\n    securityContextConfig: restricted\n" +
		"  image: " + to + "catalog:latest\n"
	digest, manifests := p.Images[0].Digest, "bundles/configrollout/manifests/"
	for file, want := range map[string]string{
		"NOTES.md":                                                      "It is there.\n",
		"install/install-configrollout.yaml":                            "image: " + to + "configrollout:0.2.0@" + digest + "\n",
		"install/catalog-for-olm-v0.yaml":                               source,
		"install/catalog-for-olm-v1.yaml":                               "ref: " + to + "catalog:latest",
		"install/configrollout-for-olm-v0.yaml":                         "kind: Subscription\n",
		"install/configrollout-for-olm-v1.yaml":                         "kind: ClusterExtension\n",
		"catalog/configrollout/catalog.yaml":                            "image: " + to + "configrollout-bundle:v0.2.0\n",
		"modules/files/operators/configrollout/go.mod":                  "require github.com/homeostat-dev/homeostat/sdk v0.2.0\n",
		manifests + "configrollout-operator.clusterserviceversion.yaml": "image: " + to + "configrollout@" + digest + "\n",
	} {
		if text := f.read(filepath.Join(folder, file)); !strings.Contains(text, want) {
			f.t.Errorf("%s does not have %q:\n%s", file, want, text)
		}
	}
	if text := f.read(filepath.Join(folder, "catalog/configrollout/catalog.yaml")); strings.Contains(text, "v0.1.0") {
		f.t.Errorf("the catalog has a version that was never published:\n%s", text)
	}
}

// arm64 is the property of a program for that architecture in an SBOM.
var arm64 = cdx.Property{Name: "cdx:gomod:build:env:GOARCH", Value: "arm64"}

// checkSBOM expects a valid SBOM, in which the operator and the SDK have the version of the release.
func checkSBOM(t *testing.T, file string) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(in, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{bom.Metadata.Component.Name: bom.Metadata.Component.PackageURL}
	for _, c := range *bom.Components {
		found[c.Name] = c.PackageURL
		if c.Version == "" || strings.HasPrefix(c.Name, ".") {
			t.Errorf("there is the component %s of version %q", c.Name, c.Version)
		}
	}
	for _, module := range []string{"operators/configrollout", "sdk"} {
		path := "github.com/homeostat-dev/homeostat/" + module
		if got, _, _ := strings.Cut(found[path], "#"); got != "pkg:golang/"+path+"@v0.2.0" {
			t.Errorf("the list has %q for %s", found[path], path)
		}
	}
	if *bom.Metadata.Properties == nil || !slices.Contains(*bom.Metadata.Properties, arm64) {
		t.Errorf("the list is not of the program for arm64: %v", *bom.Metadata.Properties)
	}
	if _, ok := found["std"]; !ok || bom.SerialNumber != "" || bom.Metadata.Timestamp != "" {
		t.Errorf("it has %v, the serial number %q and the time %q", found, bom.SerialNumber, bom.Metadata.Timestamp)
	}
}

// runOutside runs a program that requires the modules, in a folder of its own. The release is the only source of modules.
func runOutside(t *testing.T, folder string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module outside\n\ngo 1.26.0\n\nrequire github.com/homeostat-dev/homeostat/operators/configrollout v0.2.0\n",
		"main.go": "package main\n\nimport \"github.com/homeostat-dev/homeostat/operators/configrollout\"\n\n" +
			"func main() { println(configrollout.Version() + \"works\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	outside := command{dir: dir, env: []string{
		"GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GOPROXY=file://" + filepath.Join(folder, "modules", "proxy"), "GOSUMDB=off",
		"GOMODCACHE=" + t.TempDir(),
	}}
	if _, err := outside.run(t.Context(), "go", "build", "-o", "program", "."); err != nil {
		t.Fatal(err)
	}
	if _, err := outside.run(t.Context(), "./program"); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	released, released2 := os.ReadFile(filepath.Join(folder, "modules/files/operators/configrollout/go.sum"))
	if errors.Join(err, released2) != nil || !strings.Contains(string(sums), strings.TrimSpace(string(released))) {
		t.Errorf("an importer computes the checksums %s, and the release has %s", sums, released)
	}
}

// checkRegistry expects every image in the registry under each of its tags, and a bundle and a catalog that OLM can read.
func checkRegistry(t *testing.T, p *plan) {
	t.Helper()
	to := p.Prefix
	for _, i := range p.Images {
		for _, tag := range i.Tags {
			if got := head(t, to+i.Name+":"+tag); got != i.Digest {
				t.Errorf("%s:%s is %s, want %s", i.Name, tag, got, i.Digest)
			}
		}
	}
	for _, chart := range []string{"configrollout", "homeostat"} {
		head(t, to+"charts/"+chart+":0.2.0")
	}
	labels, files := data(t, to+"configrollout-bundle:v0.2.0")
	if labels["operators.operatorframework.io.bundle.package.v1"] != "configrollout-operator" ||
		!slices.Contains(files, "manifests/configrollout-operator.clusterserviceversion.yaml") ||
		!slices.Contains(files, "metadata/annotations.yaml") || !slices.Contains(files, "tests/scorecard/config.yaml") {
		t.Errorf("the bundle has the labels %v and the files %v", labels, files)
	}
	labels, files = data(t, to+"catalog:latest")
	if labels["operators.operatorframework.io.index.configs.v1"] != "/configs" ||
		!slices.Equal(files, []string{"configs/configrollout/catalog.yaml"}) {
		t.Errorf("the catalog has the labels %v and the files %v", labels, files)
	}
}

func parse(t *testing.T, image string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func head(t *testing.T, image string) string {
	t.Helper()
	d, err := remote.Head(parse(t, image))
	if err != nil {
		t.Fatal(err)
	}
	return d.Digest.String()
}

// data returns the content of an image of data.
func data(t *testing.T, ref string) (labels map[string]string, files []string) {
	t.Helper()
	image, err := remote.Image(parse(t, ref))
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		files = append(files, filesIn(t, l)...)
	}
	return config.Config.Labels, files
}

func filesIn(t *testing.T, l v1.Layer) (files []string) {
	t.Helper()
	content, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			files = append(files, header.Name)
		}
	}
}
