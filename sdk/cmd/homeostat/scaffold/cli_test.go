package scaffold

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// homeostat runs the command line in this process.
func homeostat(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"--help", "-h", "help", "new --help", "new web-shop -h"} {
		if code, out, errs := homeostat(t, strings.Fields(line)...); code != 0 || out != usage || errs != "" {
			t.Errorf("homeostat %s: code %d, output %q, errors %q; want the usage", line, code, out, errs)
		}
	}
}

func TestInvalidInputIsOneSentence(t *testing.T) {
	t.Parallel()
	const good = " --group shop.example.com --kind WebShop"
	existing := t.TempDir()
	for line, want := range map[string]string{
		"":    "what is to be done?",
		"nwe": `there is no command "nwe": there are new and add`,
		"new": "give NAME and --group GROUP and --kind KIND, for example",

		"new web-shop --kind WebShop":           "give --group GROUP, for example `homeostat new web-shop",
		"new web-shop --group shop.example.com": "give --kind KIND, for example",
		"new web-shop --colour red":             "flag provided but not defined: -colour: `homeostat new --help` lists the flags",
		"new web-shop --kind":                   "flag needs an argument: -kind",
		"new web shop" + good:                   "there is more than one NAME (web, shop)",

		"new Web_Shop" + good:                   `NAME "Web_Shop" will not do: choose at most 50 lower-case letters`,
		"new web-shop-" + good:                  `NAME "web-shop-" will not do`,
		"new 3d" + good:                         `NAME "3d" will not do`,
		"new ../web-shop" + good:                `NAME "../web-shop" will not do`,
		"new " + strings.Repeat("a", 51) + good: "will not do: choose at most 50",
		"new on" + good:                         `NAME "on" will not do, because it means something else in YAML`,
		"new vendor" + good:                     `NAME "vendor" will not do`,
		"new v1" + good:                         `--module "shop.example.com/v1" will not do, because it ends like a version`,

		"new a --kind WebShop --group shop":             `--group "shop" will not do: choose a domain of yours`,
		"new a --kind WebShop --group Shop.example.com": `--group "Shop.example.com" will not do`,
		"new a --kind WebShop --group shop.k8s.io":      `--group "shop.k8s.io" will not do, because it belongs to Kubernetes`,

		"new a --group a.b --kind webShop":                     `--kind "webShop" will not do: choose at most 40 letters`,
		"new a --group a.b --kind Web-Shop":                    `--kind "Web-Shop" will not do`,
		"new a --group a.b --kind W" + strings.Repeat("e", 40): "will not do: choose at most 40",
		"new a --group a.b --kind ShopList":                    `--kind "ShopList" will not do, because it is what a list`,
		"new a --group a.b --kind GroupVersion":                `--kind "GroupVersion" will not do, because every API package`,
		"new a --group a.b --kind WatchEvent":                  "choose another one, such as MyWatchEvent",
		"new a --group a.b --kind Null":                        `--kind "Null" will not do`,

		"new a --version 1" + good:                `--version "1" will not do: choose a version of Kubernetes' kind`,
		"new a --version v1.2" + good:             `--version "v1.2" will not do`,
		"new a --scope Global" + good:             `--scope "Global" will not do: choose Namespaced or Cluster`,
		"new a --module /a" + good:                "--module will not do: malformed import path",
		"new a --dir " + existing + good:          existing + " exists, and nothing is overwritten: choose another NAME or --dir",
		"new a --dir " + existing + "/b/c" + good: "there is no folder " + existing + "/b to write c to: make it",

		"new a --dir " + existing + "/a --homeostat " + existing + good: existing + " is no checkout of Homeostat",
		"new a --dir " + existing + "/a$b" + good:                       "make cannot handle its name: choose one without spaces",
		"new a --dir ../a" + good:                                       "belongs into operators/a: leave out --dir",
		"new a --homeostat ../.." + good:                                "--homeostat is for operators outside of a checkout",
		"new a --module example.com/a" + good:                           "--module is for operators outside of a checkout",
	} {
		code, out, errs := homeostat(t, strings.Fields(line)...)
		if code != 2 || out != "" || !strings.HasPrefix(errs, "homeostat: ") || !strings.Contains(errs, want) ||
			strings.Count(errs, "\n") != 1 {
			t.Errorf("homeostat %s: code %d, output %q, errors\n%s\nwant code 2 and one line with\n%s", line, code, out, errs, want)
		}
	}
	if entries, err := os.ReadDir(existing); err != nil || len(entries) > 0 {
		t.Errorf("files are left: %v, %v", entries, err)
	}
}

// After a failure no file is left.
func TestFailureLeavesNoFiles(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	dir := t.TempDir()
	code, _, errs := homeostat(t, "new", "web-shop", "--group", "shop.example.com", "--kind", "WebShop",
		"--dir", filepath.Join(dir, "web-shop"))
	why := "completing go.mod with `go mod tidy`: "
	if code != 1 || !strings.Contains(errs, why) || !strings.Contains(errs, "nothing was written") {
		t.Errorf("without a module proxy: code %d, errors\n%s", code, errs)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("files are left: %v, %v", entries, err)
	}
}

func TestFlagOrder(t *testing.T) {
	t.Parallel()
	want := request{
		name: "web-shop", group: "shop.example.com", kind: "WebShop", version: "v1", scope: "Cluster", language: languageGo,
	}
	for _, line := range []string{
		"web-shop --group shop.example.com --kind WebShop --version v1 --scope Cluster",
		"--group=shop.example.com --scope=Cluster web-shop -kind WebShop --version=v1",
		"--version v1 --kind=WebShop -scope Cluster --group shop.example.com web-shop",
	} {
		got, err := parse(strings.Fields(line))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(request{})); err != nil || diff != "" {
			t.Errorf("%s: %v, -want +got:\n%s", line, err, diff)
		}
	}
}
