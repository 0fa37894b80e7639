package main

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		files  map[string]string
		want   []string
	}{
		"Resolves": {
			reason: "Files, folders, headings and what lies outside the repository's power are left alone.",
			files: map[string]string{
				"README.md": "# Top\n[a](docs/a.md) [b](docs) [c](docs/a.md#the-api-v1) [d](#top) [e](https://x/y)\n" +
					"![f](docs/a%20b.png)\n[ref]\n\n[ref]: docs/a.md\n",
				"docs/a.md":    "## The `api`: *v1*!\n[up](../README.md)\n",
				"docs/a b.png": "",
			},
		},
		"FileMissing": {
			reason: "A file that was moved takes its links with it.",
			files:  map[string]string{"docs/a.md": "[gone](../sdk/gone.go)\n"},
			want:   []string{"docs/a.md: link to ../sdk/gone.go: there is no sdk/gone.go"},
		},
		"ReferenceMissing": {
			reason: "A link by reference is a link.",
			files:  map[string]string{"a.md": "[gone][1]\n\n[1]: gone.md\n"},
			want:   []string{"a.md: link to gone.md: there is no gone.md"},
		},
		"ImageMissing": {
			reason: "A picture is a link.",
			files:  map[string]string{"a.md": "![gone](gone.svg)\n"},
			want:   []string{"a.md: link to gone.svg: there is no gone.svg"},
		},
		"HeadingMissing": {
			reason: "A heading that was reworded loses its readers.",
			files:  map[string]string{"a.md": "[x](b.md#how)\n", "b.md": "# Why\n"},
			want:   []string{"a.md: link to b.md#how: b.md has no heading #how"},
		},
		"OwnHeadingMissing": {
			reason: "A link within the page is a link.",
			files:  map[string]string{"a.md": "# Why\n[x](#how)\n"},
			want:   []string{"a.md: link to #how: a.md has no heading #how"},
		},
		"SameHeadingTwice": {
			reason: "The second heading of a text gets a number, the third the next.",
			files:  map[string]string{"a.md": "# X\n# X\n[1](#x) [2](#x-1) [3](#x-2)\n"},
			want:   []string{"a.md: link to #x-2: a.md has no heading #x-2"},
		},
		"LeavesTheRepository": {
			reason: "What lies beside the repository on one disk is not on the reader's.",
			files:  map[string]string{"a.md": "[x](../other/b.md)\n"},
			want:   []string{"a.md: link to ../other/b.md: leaves the repository"},
		},
		"Code": {
			reason: "Brackets in code are not links.",
			files:  map[string]string{"a.md": "`[x](gone.md)`\n\n```\n[y](gone.md)\n```\n"},
		},
		"Testdata": {
			reason: "Fixtures may be broken on purpose.",
			files:  map[string]string{"tools/testdata/a.md": "[x](gone.md)\n"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fsys := fstest.MapFS{}
			for file, content := range tc.files {
				fsys[file] = &fstest.MapFile{Data: []byte(content)}
			}
			got, err := check(fsys)
			if err != nil {
				t.Fatalf("%s\ncheck: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\ncheck: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
