package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

const repository = "../../.."

// A new project with a webhook passes `make olm-test`. When its first version is released, the second one is an upgrade, and
// a webhook that no longer refuses anything is found.
func TestProject(t *testing.T) {
	t.Parallel()
	dir := newProject(t)
	out, errOut, err := execute(t, dir, "make", "olm-test")
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errOut)
	}
	requireLines(t, out,
		"registry.invalid/web-shop-bundle@sha256:", "registry.invalid/web-shop-catalog@sha256:", "build/catalog/web-shop",
		"OLM v0 has installed web-shop-operator.v0.1.0", "sample WebShop example is ready",
		`admission webhook "validate.webshops.shop.example.com" denied the request: `,
		"the operator, its definitions and the catalog are removed")
	for _, image := range []string{"web-shop", "web-shop-bundle", "web-shop-catalog"} {
		if _, err := os.Stat(filepath.Join(dir, "build", "images", image+".tar")); err != nil {
			t.Error(err)
		}
	}

	released := filepath.Join(dir, "olm", "released", "web-shop", "v0.1.0")
	if err := os.CopyFS(released, os.DirFS(filepath.Join(dir, "build", "bundle", "web-shop"))); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(dir, "config/manifests/bases/web-shop-operator.clusterserviceversion.yaml"), "0.1.0", "0.2.0")
	const first = "    - image: registry.invalid/web-shop-bundle:v0.1.0\n"
	edit(t, filepath.Join(dir, "olm/web-shop.yaml"), first, first+strings.Replace(first, "0.1.0", "0.2.0", 1))
	edit(t, filepath.Join(dir, "internal/webhooks/webshop_admission.go"),
		`found && value != "true"`, `found && value == "never"`)
	out, errOut, err = execute(t, dir, "make", "olm-test")
	if err == nil {
		t.Error("a webhook that refuses nothing passes")
	}
	requireLines(t, out,
		"OLM v0 has installed web-shop-operator.v0.1.0", "sample WebShop example is ready",
		"OLM v0 has installed web-shop-operator.v0.2.0", "sample WebShop example is ready", "sample WebShop example is ready")
	reason, after, found := strings.Cut(errOut, "has to refuse it; the answer: accepted; the logs of OLM are in ")
	if !found {
		t.Fatalf("the reason is\n%s", errOut)
	}
	if !strings.Contains(reason, "the log of pod web-shop-controller-") {
		t.Errorf("the log of the operator is missing:\n%s", reason)
	}
	logs, _, _ := strings.Cut(after, "\n")
	if _, err := os.Stat(filepath.Join(logs, "catalog.log")); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(logs); err != nil {
		t.Error(err)
	}
}

// newProject writes a project outside of the repository, with a webhook, as its user does.
func newProject(t *testing.T) (dir string) {
	t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	homeostat := filepath.Join(t.TempDir(), "homeostat")
	dir = filepath.Join(t.TempDir(), "web-shop")
	for _, c := range []struct {
		in   string
		args []string
	}{
		{filepath.Join(root, "sdk/cmd/homeostat"), []string{"go", "build", "-o", homeostat, "."}},
		{root, []string{
			homeostat, "new", "web-shop", "--group", "shop.example.com", "--kind", "WebShop", "--homeostat", root, "--dir", dir,
		}},
		{dir, []string{"git", "init", "--quiet"}},
		{dir, []string{"git", "add", "."}},
		{dir, []string{"git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "a"}},
		{dir, []string{homeostat, "add", "webhook"}},
	} {
		if out, errOut, err := execute(t, c.in, c.args...); err != nil {
			t.Fatalf("%q: %v\n%s%s", c.args, err, out, errOut)
		}
	}
	return dir
}

// execute runs a command in a folder. The variables of this test's go command and make are not for it.
func execute(t *testing.T, dir string, args ...string) (out, errOut string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=", "MAKEFLAGS=", "MAKEOVERRIDES=", "MAKELEVEL=0")
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// requireLines expects lines with these beginnings, in this order, among others.
func requireLines(t *testing.T, out string, beginnings ...string) {
	t.Helper()
	rest := strings.Split(out, "\n")
	for _, want := range beginnings {
		i := slices.IndexFunc(rest, func(line string) bool { return strings.HasPrefix(line, want) })
		if i < 0 {
			t.Fatalf("there is no line %q where it belongs:\n%s", want, out)
		}
		rest = rest[i+1:]
	}
}

// edit replaces all occurrences of a text, of which there is one at least.
func edit(t *testing.T, file, old, by string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil && !bytes.Contains(data, []byte(old)) {
		err = errors.New("it does not have " + old)
	}
	if err == nil {
		err = os.WriteFile(file, bytes.ReplaceAll(data, []byte(old), []byte(by)), 0o600)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// The catalog is once as it was before the current version. There is no such catalog before the first version of a channel.
func TestWithoutVersion(t *testing.T) {
	t.Parallel()
	catalog := &declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Name: "a", DefaultChannel: "stable-v1"}},
		Bundles:  []declcfg.Bundle{{Name: "a.v0.9.0"}, {Name: "a.v1.0.0"}, {Name: "a.v1.1.0"}},
		Channels: []declcfg.Channel{
			{Name: "stable-v0", Entries: []declcfg.ChannelEntry{{Name: "a.v0.9.0"}}},
			{Name: "stable-v1", Entries: []declcfg.ChannelEntry{{Name: "a.v1.0.0"}, {Name: "a.v1.1.0", Replaces: "a.v1.0.0"}}},
		},
	}
	former := withoutVersion(catalog, "a.v1.1.0")
	if former == nil || len(former.Bundles) != 2 || len(former.Channels) != 2 || len(former.Channels[1].Entries) != 1 {
		t.Fatalf("without 1.1.0: %+v", former)
	}
	if first := withoutVersion(former, "a.v1.0.0"); first != nil {
		t.Errorf("without the first version of the default channel: %+v", first)
	}
	if len(catalog.Bundles) != 3 || len(catalog.Channels[1].Entries) != 2 {
		t.Errorf("the catalog was changed: %+v", catalog)
	}
}

// An upgrade is tested only if the current program runs with what the former bundle installs.
func TestDifferentNeeds(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*v1alpha1.ClusterServiceVersion){
		"": func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.Description = "another" },
		"definitions": func(csv *v1alpha1.ClusterServiceVersion) {
			csv.Spec.CustomResourceDefinitions.Owned[0].Version = "v2"
		},
		"permissions": func(csv *v1alpha1.ClusterServiceVersion) {
			csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions[0].Rules[0].Verbs = []string{"get"}
		},
		"arguments": func(csv *v1alpha1.ClusterServiceVersion) {
			csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Args = []string{"--new"}
		},
	} {
		bundle := filepath.Join(repository, "bundle", "myapp")
		before, err := readCSV(bundle)
		if err != nil {
			t.Fatal(err)
		}
		now := before.DeepCopy()
		change(now)
		if got := differentNeeds(before, now); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
}

// Wrong arguments and missing files are reported before anything is started.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"usage: olmtest":    {"-name", "a"},
		"flag provided but": {"-nonsense"},
		"olm/install/v0.yaml:": {
			"-name", "a", "-catalog", "a", "-released", "a", "-current", "a", repository + "/operators/myapp",
		},
	} {
		var out, messages bytes.Buffer
		if err := run(t.Context(), args, &out, &messages); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
