package assets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folderWith creates a folder with programs.
func folderWith(t *testing.T, mode os.FileMode, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEnvironment(t *testing.T) {
	api := []string{Etcd, APIServer}
	folder := folderWith(t, 0o755, api...)
	file := filepath.Join(folder, Etcd)
	tests := map[string]struct {
		reason string
		value  string
		need   []string
		want   string // part of the error; empty means success
	}{
		"complete": {reason: "all needed programs exist", value: folder, need: api},
		"not set":  {reason: "an error says where it looked", need: api, want: "KUBEBUILDER_ASSETS is not set"},
		"incomplete": {
			reason: "it names what is missing",
			value:  folder, want: "lacks kube-controller-manager, kube-scheduler, kubectl, kwok",
		},
		"no such folder": {
			reason: "a typo must be an error",
			value:  "/no/such/folder", need: api, want: "does not exist; correct it, or unset it",
		},
		"a file": {reason: "a folder is wanted", value: file, need: api, want: "is not a folder"},
		"not executable": {
			reason: "a program that cannot run must be detected early",
			value:  folderWith(t, 0o644, api...), need: api, want: "etcd is not executable",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			set, err := Find(t.Context(), Options{
				Programs: tc.need, Sources: []Source{Environment}, CacheDir: t.TempDir(),
				Env: func(name string) string { return map[string]string{EnvDir: tc.value}[name] },
			})
			switch {
			case tc.want == "" && (err != nil || set.Dir != tc.value || set.Path(Etcd) != file):
				t.Errorf("%s: got %v, %v", tc.reason, set, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s: error is %v, want one with %q", tc.reason, err, tc.want)
			}
		})
	}
}

func TestRelativeFolderBecomesAbsolute(t *testing.T) {
	folder := folderWith(t, 0o755, Etcd)
	t.Chdir(filepath.Dir(folder))
	set, err := Find(t.Context(), Options{
		Programs: []string{Etcd}, CacheDir: t.TempDir(), Env: func(string) string { return filepath.Base(folder) },
		Sources: []Source{Environment},
	})
	if err != nil || !filepath.IsAbs(set.Dir) {
		t.Errorf("got %v, %v, want an absolute folder: commands run elsewhere", set, err)
	}
}

// A named folder that lacks a program must be reported, and must not prevent the use of another source.
func TestIncompleteSourceIsSkipped(t *testing.T) {
	useFakeGo(t, "")
	var n reports
	folder := folderWith(t, 0o755, Etcd, APIServer)
	set, err := Find(t.Context(), Options{
		CacheDir: t.TempDir(), Progress: n.add,
		Env: func(name string) string { return map[string]string{EnvDir: folder}[name] },
	})
	if err != nil {
		t.Fatal(err)
	}
	if set.Origin != "built from source" {
		t.Errorf("the set comes from %q, want a build", set.Origin)
	}
	want := "environment: KUBEBUILDER_ASSETS names " + folder + ", which lacks kube-controller-manager"
	if !strings.Contains(n.String(), want) {
		t.Errorf("no report contains %q:\n%s", want, &n)
	}
}

func TestSources(t *testing.T) {
	calls := useFakeGo(t, "")
	folder := folderWith(t, 0o755, programs...)
	tests := map[string]struct {
		reason  string
		sources []Source
		env     map[string]string
		want    string // source of the set, or part of the error
		fails   bool
		builds  int
	}{
		"usual order": {
			reason: "the user's folder is searched first", env: map[string]string{EnvDir: folder}, want: EnvDir,
		},
		"forced": {
			reason: "the variable forces a source", env: map[string]string{EnvDir: folder, EnvSources: "build"},
			want: "built from source", builds: 1,
		},
		"forbidden": {
			reason: "sources that are not listed are not used", env: map[string]string{EnvSources: "environment, cache"},
			want: "no source has", fails: true,
		},
		"by option": {
			reason:  "the option overrides the variable",
			sources: []Source{Cache}, env: map[string]string{EnvSources: "build"},
			want: "nothing was built or downloaded yet", fails: true,
		},
		"unknown": {
			reason: "a typo must be an error", env: map[string]string{EnvSources: "cash"},
			want: `there is no source "cash"`, fails: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := len(calls("build"))
			set, err := Find(t.Context(), Options{
				CacheDir: t.TempDir(), Sources: tc.sources, Env: func(name string) string { return tc.env[name] },
			})
			got := set.Origin
			if err != nil {
				got = err.Error()
			}
			if (err != nil) != tc.fails || !strings.Contains(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
			if n := len(calls("build")) - before; n != tc.builds {
				t.Errorf("%s: %d builds, want %d", tc.reason, n, tc.builds)
			}
		})
	}
}

func TestUnknownProgram(t *testing.T) {
	_, err := Find(t.Context(), Options{Programs: []string{"kubelet"}, CacheDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), `there is no program "kubelet"; there are etcd, kube-apiserver`) {
		t.Errorf("error is %v, want one that lists the programs", err)
	}
}

func TestNoHome(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	_, err := Find(t.Context(), Options{Env: noEnv})
	if err == nil || !strings.Contains(err.Error(), "set HOME or XDG_CACHE_HOME") {
		t.Errorf("error is %v, want one that says what to set", err)
	}
}
