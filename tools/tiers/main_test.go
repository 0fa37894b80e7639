package main

import (
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"a/a_test.go":     {Data: []byte("package a\n\nfunc TestDemo(t *testing.T) {}\nfunc TestReal(t *testing.T) {}\n")},
		"a/a.go":          {Data: []byte("package a\n\nfunc TestNot(t *testing.T) {}\n")},
		"build/b_test.go": {Data: []byte("package b\n\nfunc TestBuilt(t *testing.T) {}\n")},
	}
	for name, test := range map[string]struct{ list, want, err string }{
		"tests and subtests":   {list: "# Why\n\nTestReal/a.b  slow\nTestDemo  slower\n", want: `^TestDemo$|^TestReal$/^a\.b$`},
		"no reason":            {list: "TestDemo\n", err: `"TestDemo": write two spaces and the reason`},
		"one space":            {list: "TestDemo slow\n", err: "write two spaces and the reason"},
		"unknown test":         {list: "TestRenamed  slow\n", err: "no test is called TestRenamed"},
		"not in a test file":   {list: "TestNot  slow\n", err: "no test is called TestNot"},
		"in the build folder":  {list: "TestBuilt  slow\n", err: "no test is called TestBuilt"},
		"an empty list is not": {list: "# none\n", err: "the list has no test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := selectTests(fsys, test.list)
			failed := err != nil && strings.Contains(err.Error(), test.err)
			if got.pattern != test.want || failed != (test.err != "") {
				t.Errorf("%q, %v, want %q, %q", got.pattern, err, test.want, test.err)
			}
		})
	}
}

func TestPackages(t *testing.T) {
	t.Parallel()
	selected, err := selectTests(fstest.MapFS{
		"b/a_test.go":          {Data: []byte("func TestOne(t *testing.T) {}\nfunc TestTwo(t *testing.T) {}\n")},
		"a/c/a_test.go":        {Data: []byte("func TestOne(t *testing.T) {}\n")},
		"a/testdata/x_test.go": {Data: []byte("func TestOne(t *testing.T) {}\n")},
		"d/a_test.go":          {Data: []byte("func TestThree(t *testing.T) {}\n")},
	}, "TestOne  slow\nTestTwo/x  slow\n")
	if got := strings.Join(selected.packages, " "); err != nil || got != "./a/c ./b" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestGoUnderstandsThePattern checks that go test leaves out what the pattern names, and nothing else.
func TestGoUnderstandsThePattern(t *testing.T) {
	t.Parallel()
	selected, err := selectTests(fstest.MapFS{
		"a_test.go": {Data: []byte("func TestPattern(t *testing.T) {}\nfunc TestSubtests(t *testing.T) {}\n")},
	}, "TestPattern  slow\nTestSubtests/left_out  slow\n")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-v", "-run", "^TestPattern$|^TestSubtests$", "-skip",
		selected.pattern, ".")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestSubtests/kept") ||
		strings.Contains(string(out), "left_out") || strings.Contains(string(out), "TestPattern") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSubtests(t *testing.T) {
	t.Parallel()
	t.Run("kept", func(*testing.T) {})
	t.Run("left out", func(*testing.T) {})
}
