package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

var rawText = regexp.MustCompile(`(?s)(<(?:style|script)>).*?(</(?:style|script)>)`)

// elements parses a page strictly as XML, so that an unclosed element is an error.
func elements(t *testing.T, page []byte, see func(depth int, e xml.StartElement, text string)) {
	t.Helper()
	page = rawText.ReplaceAll(page, []byte("$1$2"))
	d := xml.NewDecoder(bytes.NewReader(page))
	var open []xml.StartElement
	for text := ""; ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatalf("the page is not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if len(open) > 0 && strings.TrimSpace(text) != "" {
				see(len(open), xml.StartElement{}, strings.TrimSpace(text))
			}
			text = ""
			see(len(open), token, "")
			open = append(open, token.Copy())
		case xml.CharData:
			text += string(token)
		case xml.EndElement:
			if strings.TrimSpace(text) != "" {
				see(len(open), xml.StartElement{}, strings.TrimSpace(text))
			}
			text = ""
			open = open[:len(open)-1]
		}
	}
}

func TestHTMLGolden(t *testing.T) {
	t.Parallel()
	var outline bytes.Buffer
	elements(t, page(t, small()), func(depth int, e xml.StartElement, text string) {
		fmt.Fprint(&outline, strings.Repeat("  ", depth))
		if text != "" {
			fmt.Fprintf(&outline, "%q\n", text)
			return
		}
		fmt.Fprint(&outline, e.Name.Local)
		for _, a := range e.Attr {
			if a.Name.Local != "content" { // the hashes of script and style
				fmt.Fprintf(&outline, " %s=%q", a.Name.Local, a.Value)
			}
		}
		fmt.Fprintln(&outline)
	})
	golden(t, "small.outline", "the page has the structure that its style and its script rely on", outline.Bytes())
}

func TestHTMLLinksHaveTargets(t *testing.T) {
	t.Parallel()
	_, large := large(t)
	for name, page := range map[string][]byte{
		"website": page(t, website(t)), "hostile": page(t, hostile()), "large": large,
	} {
		ids, links := map[string]bool{}, map[string]bool{}
		elements(t, page, func(_ int, e xml.StartElement, _ string) {
			for _, a := range e.Attr {
				switch a.Name.Local {
				case "id":
					if ids[a.Value] {
						t.Errorf("%s: there are two elements with the id %s", name, a.Value)
					}
					ids[a.Value] = true
				case "href":
					links[a.Value] = true
				case "data-rows", "aria-labelledby":
					for id := range strings.FieldsSeq(a.Value) {
						links["#"+id] = true
					}
				}
			}
		})
		delete(links, "data:,") // the icon, so that the browser requests none
		for link := range links {
			if id, ok := strings.CutPrefix(link, "#"); !ok || !ids[id] {
				t.Errorf("%s: a link leads to %q, which is not in the page", name, link)
			}
		}
	}
}

func TestHTMLEscapesText(t *testing.T) {
	t.Parallel()
	var texts, scripts int
	elements(t, page(t, hostile()), func(_ int, e xml.StartElement, text string) {
		switch e.Name.Local {
		case "script":
			scripts++
		case "img":
			t.Error("a text became an image")
		}
		for _, a := range e.Attr {
			if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "style" {
				t.Errorf("<%s> has an attribute %s", e.Name.Local, a.Name.Local)
			}
		}
		if strings.Contains(text, "<script>window.obeyed=1</script>") {
			texts++
		}
	})
	if scripts != 1 || texts < 20 {
		t.Errorf("there are %d scripts and %d texts that contain one, want 1 and at least 20", scripts, texts)
	}
}

// longRuns do not all fit into a page of fewRows.
const (
	longRuns = 4
	fewRows  = 1_500
)

// large is the page of a long exploration.
func large(t *testing.T) (*report.Report, []byte) {
	t.Helper()
	r := website(t)
	i := slices.IndexFunc(r.Runs, func(run report.Run) bool { return len(run.Timeline) > 300 })
	long := r.Runs[i]
	long.Outcome = report.Passed
	long.Violations = nil
	for n := range longRuns {
		long.Name = fmt.Sprintf("long#%d", n)
		r.Runs = append(r.Runs, long)
	}
	return r, written(t, func(b *bytes.Buffer) error { return report.WriteHTMLWithRows(b, r, fewRows) })
}

// TestHTMLOfManyRunsIsLimited checks that the page is small enough for a browser, and that failed runs are complete.
func TestHTMLOfManyRunsIsLimited(t *testing.T) {
	t.Parallel()
	r, large := large(t)
	entries, failed := 0, 0
	for _, run := range r.Runs {
		entries += len(run.Timeline)
		if run.Outcome == report.Failed {
			failed += len(run.Timeline)
		}
	}
	rows, failedRows, partial := 0, 0, 0
	var outcome string
	elements(t, large, func(_ int, e xml.StartElement, text string) {
		for _, a := range e.Attr {
			if e.Name.Local == "section" && a.Name.Local == "class" {
				outcome = strings.TrimPrefix(a.Value, "group ")
			}
			if e.Name.Local == "tr" && a.Name.Local == "id" {
				rows++
				if outcome == "failed" {
					failedRows++
				}
			}
		}
		if strings.Contains(text, "The JSON form of the report has the others.") {
			partial++
		}
	})
	if failedRows != failed {
		t.Errorf("the failed runs have %d rows, want all %d of their entries", failedRows, failed)
	}
	if rows >= entries || rows < fewRows-309 || rows > fewRows+500 || partial == 0 {
		t.Errorf("there are %d rows for %d entries, and %d tables report that they are incomplete", rows, entries, partial)
	}
}
