package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// workspace returns a valid workspace. Each case replaces some of its files.
func workspace() map[string]string {
	return map[string]string{
		"go.work":            "go 1.26.0\nuse (\n./sdk\n./testkit\n./operators/a\n./operators/b\n)\n",
		"sdk/go.mod":         "module x/sdk\ngo 1.26.0\nrequire k8s.io/api v0.37.2\n",
		"testkit/go.mod":     "module x/testkit\ngo 1.26.0\nrequire k8s.io/api v0.37.2\n",
		"operators/a/go.mod": "module x/operators/a\ngo 1.26.0\nrequire x/sdk v0.0.0\nreplace x/sdk => ../../sdk\n",
		"operators/b/go.mod": "module x/operators/b\ngo 1.26.0\n",
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		files  map[string]string
		want   []string
	}{
		"Healthy": {
			reason: "A workspace that keeps the rules has no fault.",
		},
		"VersionsDiffer": {
			reason: "Alone, sdk would be built with another version than in the workspace.",
			files:  map[string]string{"sdk/go.mod": "module x/sdk\ngo 1.26.0\nrequire k8s.io/api v0.36.0\n"},
			want: []string{
				"k8s.io/api: required at v0.36.0 in sdk and at v0.37.2 in testkit: run `make tidy` to select one",
			},
		},
		"ControlPlaneDiffers": {
			reason: "Packages that the control plane shares with the workspace are compiled once.",
			files:  map[string]string{controlPlane: "module x\ngo 1.26.0\nrequire k8s.io/api v0.37.0\nrequire other.io/x v1.0.0\n"},
			want: []string{
				controlPlane + ": builds k8s.io/api v0.37.0, but the workspace has v0.37.2: write the same version in both, so " +
					"that its packages are compiled once",
			},
		},
		"ControlPlaneReplaces": {
			reason: "A replacement is the version that is compiled.",
			files: map[string]string{
				controlPlane: "module x\ngo 1.26.0\nrequire k8s.io/api v0.0.0\nreplace k8s.io/api => k8s.io/api v0.37.2\n",
			},
		},
		"GoLineDiffers": {
			reason: "One module must not ask for another Go than the rest.",
			files:  map[string]string{"operators/b/go.mod": "module x/operators/b\ngo 1.25.0\n"},
			want: []string{
				"operators/b/go.mod: has go 1.25.0, but sdk/go.mod has go 1.26.0: write the same in both",
			},
		},
		"ToolchainLine": {
			reason: "A toolchain line makes the go command download another compiler.",
			files:  map[string]string{"operators/b/go.mod": "module x/operators/b\ngo 1.26.0\ntoolchain go1.26.3\n"},
			want: []string{
				"operators/b/go.mod: has toolchain go1.26.3: delete it, the go line is enough",
			},
		},
		"ReplaceMissing": {
			reason: "Without the replace the module builds in the workspace only.",
			files: map[string]string{
				"operators/a/go.mod": "module x/operators/a\ngo 1.26.0\nrequire x/sdk v0.0.0\n",
			},
			want: []string{
				"operators/a/go.mod: requires sdk without its replace: add `replace x/sdk => ../../sdk`",
			},
		},
		"ReplaceElsewhere": {
			reason: "A replace by another folder builds something else than the workspace does.",
			files: map[string]string{
				"operators/a/go.mod": "module x/operators/a\ngo 1.26.0\nrequire x/sdk v0.0.0\n" +
					"replace x/sdk => ../sdk\n",
			},
			want: []string{
				"operators/a/go.mod: requires sdk without its replace: add `replace x/sdk => ../../sdk`",
			},
		},
		"SDKRequiresSibling": {
			reason: "The sdk is imported from outside, where our replaces do not count.",
			files: map[string]string{
				"sdk/go.mod": "module x/sdk\ngo 1.26.0\nrequire x/operators/b v0.0.0\n" +
					"replace x/operators/b => ../operators/b\n",
			},
			want: []string{
				"sdk/go.mod: must not require operators/b: importers of sdk must get nothing else of ours",
			},
		},
		"TestkitRequiresOperator": {
			reason: "testkit must serve operators that it has never heard of.",
			files: map[string]string{
				"testkit/go.mod": "module x/testkit\ngo 1.26.0\nrequire x/operators/b v0.0.0\n" +
					"replace x/operators/b => ../operators/b\n",
			},
			want: []string{
				"testkit/go.mod: must not require operators/b: testkit serves every operator, so it knows none",
				"testkit/go.mod: must not require operators/b: importers of testkit must get nothing else of ours",
			},
		},
		"TestkitRequiresSDK": {
			reason: "Operators of other libraries must not get the sdk with testkit.",
			files: map[string]string{
				"testkit/go.mod": "module x/testkit\ngo 1.26.0\nrequire x/sdk v0.0.0\nreplace x/sdk => ../sdk\n",
			},
			want: []string{
				"testkit/go.mod: must not require sdk: importers of testkit must get nothing else of ours",
			},
		},
		"OperatorRequiresOperator": {
			reason: "Operators are released on their own.",
			files: map[string]string{
				"operators/b/go.mod": "module x/operators/b\ngo 1.26.0\nrequire x/operators/a v0.0.0\n" +
					"replace x/operators/a => ../a\n",
			},
			want: []string{
				"operators/b/go.mod: must not require operators/a: operators ship one by one",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := check(tree(tc.files))
			if err != nil {
				t.Fatalf("%s\ncheck: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\ncheck: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCheckUnreadable(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		files  map[string]string
		want   string
	}{
		"NoModule": {
			reason: "go.work may name a folder that is not there.",
			files:  map[string]string{"go.work": "go 1.26.0\nuse ./gone\n"},
			want:   "gone/go.mod",
		},
		"BadModule": {
			reason: "A go.mod that does not parse is named with its line.",
			files:  map[string]string{"sdk/go.mod": "module x/sdk\ngo 1.26.0\nrequire\n"},
			want:   "sdk/go.mod:3",
		},
		"NoGoLine": {
			reason: "Without a go line the go command assumes a language version from 2019.",
			files:  map[string]string{"sdk/go.mod": "module x/sdk\n"},
			want:   "sdk/go.mod lacks",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := check(tree(tc.files))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s\ncheck: error %v, want one that names %q", tc.reason, err, tc.want)
			}
		})
	}
}

func tree(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, content := range workspace() {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	for name, content := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}
