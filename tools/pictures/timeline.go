package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// runReport is a run of a JSON report of testkit explore, as far as it is drawn.
type runReport struct {
	Name       string      `json:"name"`
	What       string      `json:"what"`
	Outcome    string      `json:"outcome"`
	Timeline   []entry     `json:"timeline"`
	Violations []violation `json:"violations"`
}

// violation is the reason why a run failed.
type violation struct {
	Oracle  string `json:"oracle"`
	Message string `json:"message"`
	Detail  string `json:"detail"`
}

// String returns the oracle with the last part of the detail, or of the message if there is none: before it are the file and
// the step, if any.
func (v violation) String() string {
	detail, _, _ := strings.Cut(cmp.Or(v.Detail, v.Message), "\n")
	if i := strings.LastIndex(detail, ": waiting for "); i >= 0 {
		detail = detail[i+2:]
	}
	return v.Oracle + ": " + detail
}

type entry struct {
	At   time.Duration `json:"at"`
	Lane string        `json:"lane"`
	Text string        `json:"text"`
	Bad  bool          `json:"bad"`
}

// readRun returns the run of that name from the report in a file.
func readRun(file, name string) (runReport, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the file is an argument
	if err != nil {
		return runReport{}, fmt.Errorf("reading the report: %w", err)
	}
	var report struct {
		Runs []runReport `json:"runs"`
	}
	if err := json.Unmarshal(data, &report); err != nil {
		return runReport{}, fmt.Errorf("reading the report %s: %w", file, err)
	}
	var names []string
	for _, r := range report.Runs {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return runReport{}, fmt.Errorf("the report %s has no run %q; it has %s", file, name, strings.Join(names, ", "))
}

// lanes are drawn from left to right.
var lanes = []string{"scenario", "fault", "operator", "cluster"}

const (
	timeWidth = 84
	laneWidth = 300
	rowHeight = 22
	headRows  = 3
	maxText   = 44
)

// drawTimeline returns the SVG of a run: a column for each actor, a row for each entry. Time passes downwards, not to scale.
func drawTimeline(r runReport) []byte {
	column := map[string]int{}
	for i, lane := range lanes {
		column[lane] = i
	}
	var rows []entry
	for _, e := range r.Timeline {
		if _, drawn := column[e.Lane]; drawn {
			rows = append(rows, e)
		}
	}
	width := timeWidth + len(lanes)*laneWidth
	end := (headRows + len(rows) + 1) * rowHeight // of the columns
	height := end + len(r.Violations)*rowHeight + margin

	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<title>%s: %s</title>\n<style>\n%s</style>\n", escape(r.Name), escape(r.Outcome), timelineStyle)
	fmt.Fprintf(&b, `<rect class="p" width="%d" height="%d" rx="8"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text class="n" x="%d" y="%d">%s: %s</text>`+"\n", margin, rowHeight, escape(r.Name), escape(r.Outcome))
	fmt.Fprintf(&b, `<text class="m" x="%d" y="%d">%s</text>`+"\n", margin, 2*rowHeight, escape(r.What))
	for i, lane := range lanes {
		x := timeWidth + i*laneWidth
		fmt.Fprintf(&b, `<text class="n" x="%d" y="%d">%s</text>`+"\n", x, headRows*rowHeight+4, lane)
		fmt.Fprintf(&b, `<line class="s" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n",
			x-10, headRows*rowHeight+10, x-10, end)
	}
	for i, e := range rows {
		x, y := timeWidth+column[e.Lane]*laneWidth, (headRows+i+1)*rowHeight+6
		class := e.Lane
		if e.Bad {
			class = "bad"
		}
		fmt.Fprintf(&b, `<text class="m" x="%d" y="%d" text-anchor="end">%d ms</text>`+"\n", timeWidth-18, y, e.At.Milliseconds())
		fmt.Fprintf(&b, `<circle class="%s" cx="%d" cy="%d" r="4"/>`+"\n", class, x-10, y-4)
		fmt.Fprintf(&b, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y, escape(shorten(e.Text)))
	}
	for i, v := range r.Violations {
		fmt.Fprintf(&b, `<text class="bad" x="%d" y="%d">%s</text>`+"\n", margin, end+(i+1)*rowHeight, escape(v.String()))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// shorten leaves out the namespace, which is the same in all entries, and cuts a text that does not fit into its column.
func shorten(text string) string {
	runes := []rune(strings.ReplaceAll(text, "$NAMESPACE/", ""))
	if len(runes) <= maxText {
		return string(runes)
	}
	return string(runes[:maxText-1]) + "…"
}

const timelineStyle = `.p { fill: #ffffff; stroke: #d0d7de }
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .n { font-weight: 600 } .m { fill: #656d76 }
.s { stroke: #d0d7de } .scenario { fill: #1f2328 } .operator { fill: #0969da } .cluster { fill: #1a7f37 }
.fault { fill: #bc4c00 } .bad { fill: #cf222e } text.bad { font-weight: 600 }
@media (prefers-color-scheme: dark) {
  .p { fill: #0d1117; stroke: #30363d } text { fill: #e6edf3 } .m { fill: #8b949e } .s { stroke: #30363d }
  .scenario { fill: #e6edf3 } .operator { fill: #58a6ff } .cluster { fill: #3fb950 }
  .fault { fill: #db6d28 } .bad { fill: #f85149 }
}
`
