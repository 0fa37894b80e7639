package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const events = `{"Action":"start","Package":"x/slow"}
{"Action":"run","Package":"x/slow","Test":"TestA"}
{"Action":"pass","Package":"x/slow","Test":"TestA","Elapsed":50}
{"Action":"pass","Package":"x/slow","Elapsed":60}
{"Action":"output","Package":"x/cached","Output":"ok  \tx/cached\t(cached)\n"}
{"Action":"pass","Package":"x/cached","Elapsed":0.01}
{"Action":"fail","Package":"x/failed","Elapsed":2}
{"Action":"skip","Package":"x/empty","Elapsed":0}
`

func TestMeasure(t *testing.T) {
	t.Parallel()
	got, err := measure(strings.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(times{"x/slow": 60, "x/failed": 2}, got); diff != "" {
		t.Error(diff)
	}
	for name, text := range map[string]string{
		"no JSON": "ok x 3s\n", "nothing": "",
		"only cached": `{"Action":"output","Package":"x","Output":"ok  \tx\t(cached)\n"}{"Action":"pass","Package":"x"}`,
	} {
		if _, err := measure(strings.NewReader(text)); err == nil {
			t.Errorf("%s was taken for a test run", name)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	table := times{"x/a": 100, "x/b": 100, "x/c": 2}
	cases := map[string]struct {
		reason   string
		measured times
		want     []string // the packages that are reported
	}{
		"Same": {"The run of the table has no fault.", times{"x/a": 100, "x/b": 100, "x/c": 2}, nil},
		"SlowHost": {
			"A machine that is three times as slow is no fault of a package.",
			times{"x/a": 300, "x/b": 300, "x/c": 6},
			nil,
		},
		"Longer": {"One package takes much more than its share.", times{"x/a": 100, "x/b": 400, "x/c": 2}, []string{"x/b"}},
		"Short":  {"A few seconds are noise.", times{"x/a": 100, "x/b": 100, "x/c": 11}, nil},
		"New": {
			"A new package with long tests has to be written into the table.",
			times{"x/a": 100, "x/new": 30},
			[]string{"x/new"},
		},
		"NewShort":  {"A new package with short tests needs no entry.", times{"x/a": 100, "x/new": 9}, nil},
		"OnlyNew":   {"Without a common package nothing is scaled.", times{"x/new": 30}, []string{"x/new"}},
		"Shortened": {"A package may become faster.", times{"x/a": 100, "x/b": 80}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, problem := range compare(table, c.measured) {
				pkg, _, _ := strings.Cut(problem, ":")
				got = append(got, pkg)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n%s", c.reason, diff)
			}
		})
	}
}

// TestTable writes a table from a run and compares the same run with it.
func TestTable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table, run1 := filepath.Join(dir, "table.txt"), filepath.Join(dir, "run.json")
	if err := os.WriteFile(run1, []byte(events), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(table, run1, true); err != nil {
		t.Fatal(err)
	}
	if problems, err := run(table, run1, false); err != nil || problems != nil {
		t.Errorf("a run compared with its own table: %q, %v", problems, err)
	}
	slower := strings.Replace(events, `"x/failed","Elapsed":2`, `"x/failed","Elapsed":90`, 1)
	if err := os.WriteFile(run1, []byte(slower), 0o600); err != nil {
		t.Fatal(err)
	}
	if problems, err := run(table, run1, false); err != nil || len(problems) != 1 {
		t.Errorf("one package takes 45 times as long: %q, %v", problems, err)
	}
	if err := os.WriteFile(table, []byte("x/slow sixty\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(table, run1, false); err == nil {
		t.Error("a table that cannot be read was used")
	}
}

// After a run whose results are all cached there is nothing to compare, and no table to write.
func TestCachedRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table, cached := filepath.Join(dir, "table.txt"), filepath.Join(dir, "test.json")
	for file, text := range map[string]string{
		table: "example.com/a 30\n",
		cached: `{"Action":"output","Package":"example.com/a","Output":"ok  \texample.com/a\t(cached)\n"}` + "\n" +
			`{"Action":"pass","Package":"example.com/a","Elapsed":99}` + "\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if problems, err := run(table, cached, false); len(problems) > 0 || err != nil {
		t.Errorf("compared: %v, %v", problems, err)
	}
	if _, err := run(table, cached, true); !errors.Is(err, errNothingRan) {
		t.Errorf("written: %v, want %v", err, errNothingRan)
	}
}
