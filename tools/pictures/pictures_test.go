package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// texts returns the character data of all text elements, and fails if the SVG is not well-formed.
func texts(t *testing.T, svg []byte) []string {
	t.Helper()
	var found []string
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	inText := false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.CharData:
			if inText {
				found = append(found, string(token))
			}
		case xml.EndElement:
			inText = false
		}
	}
}

func TestCast(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cast.svg")
	if err := run([]string{
		"cast", "-o", file, "-title", "a <b>", "--", "sh", "-c",
		`echo "1. Create <x> & y."; echo done >&2`,
	}); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(texts(t, svg), "|")
	if got != "a <b>|1. Create <x> & y.|done" {
		t.Errorf("the picture says %q", got)
	}
	if !bytes.Contains(svg, []byte(`class="l h l0"`)) {
		t.Error("the line of a step is no heading")
	}
}

func TestFailedCommandIsNotDrawn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cast.svg")
	if err := run([]string{"cast", "-o", file, "--", "sh", "-c", "echo half; exit 3"}); err == nil {
		t.Error("a failed command was drawn")
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a file was written")
	}
}

func TestPausesAreCompressed(t *testing.T) {
	t.Parallel()
	lines, duration := compress([]line{{time.Second, "a"}, {time.Minute, "b"}, {time.Minute + time.Second, "c"}})
	for i, want := range []time.Duration{time.Second, time.Second + longestPause, 2*time.Second + longestPause} {
		if lines[i].at != want {
			t.Errorf("line %d appears after %v, want %v", i, lines[i].at, want)
		}
	}
	if want := 2*time.Second + longestPause + lastPause; duration != want {
		t.Errorf("the picture begins again after %v, want %v", duration, want)
	}
}

const report = `{"runs": [{"name": "none#1"}, {"name": "crash/x", "what": "It was killed.", "outcome": "failed",
	"timeline": [
	{"at": 1000000, "lane": "scenario", "text": "step create"},
	{"at": 2000000, "lane": "log", "text": "not drawn"},
	{"at": 3000000, "lane": "operator",
		"text": "create deployments <ns>/web -> 201, and a text that is much too long for its column"},
	{"at": 4000000, "lane": "cluster", "text": "Deployment was created twice", "bad": true},
	{"at": 5000000, "lane": "operator", "text": "create configmaps $NAMESPACE/web -> 409"}],
	"violations": [
	{"oracle": "scenario", "message": "dir/scenario.yaml:10: step edit: waiting for Pod x: not within 30s"},
	{"oracle": "end-state", "detail": "it differs"}]}]}`

func TestTimeline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, file := filepath.Join(dir, "report.json"), filepath.Join(dir, "timeline.svg")
	if err := os.WriteFile(source, []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"timeline", "-o", file, "-run", "crash/x", source}); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(texts(t, svg), "|")
	want := "crash/x: failed|It was killed.|scenario|fault|operator|cluster|1 ms|step create|" +
		"3 ms|create deployments <ns>/web -> 201, and a t…|4 ms|Deployment was created twice|" +
		"5 ms|create configmaps web -> 409|scenario: waiting for Pod x: not within 30s|end-state: it differs"
	if got != want {
		t.Errorf("the picture says\n%s\nwant\n%s", got, want)
	}
	if !bytes.Contains(svg, []byte(`<text class="bad"`)) {
		t.Error("the bad entry is not marked")
	}
	err = run([]string{"timeline", "-o", file, "-run", "crash/y", source})
	if err == nil || !strings.Contains(err.Error(), "it has none#1, crash/x") {
		t.Errorf("a run that is not there: %v", err)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"cast"}, {"cast", "-o", "x"}, {"film", "-o", "x", "y"}, {"cast", "-nope"}} {
		if err := run(args); !errors.Is(err, errUsage) {
			t.Errorf("%q: got %v", args, err)
		}
	}
}
