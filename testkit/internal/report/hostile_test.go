package report_test

import (
	"reflect"
	"strings"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// evil is output of an operator that contains control sequences of terminals, XML and HTML, and invalid UTF-8.
const evil = "<script>window.obeyed=1</script><img src=x onerror=window.obeyed=1>\"'` onload=window.obeyed=1 " +
	"javascript:x ]]> --> </style></title></textarea>{{.}}&amp;&#x1; \x00\x01\x07\x1b[31mred\x1b[0m " +
	"\x1b]0;title\x07\x1b[2J\r\b\x7f\u0085 " +
	"\xff\xfe\xc3\x28 \u202etxet\u202c\u2066\u2069\u200b\ufeff\ufffe\u2028\u2029\U000E0001 end"

// hostile has an evil text in every field that can hold one, found by reflection so that no field is missed.
func hostile() *report.Report {
	long := strings.Repeat("word", 20_000)
	run := func(outcome report.Outcome) report.Run {
		return report.Run{
			Outcome: outcome, Name: " ", Fault: " ", Summary: " ", UntriedReason: " ", Duration: -time.Second, Replay: " ",
			Violations: []report.Violation{{Oracle: " ", Message: " ", Detail: " "}, {Message: long, Detail: long}},
			Timeline: []report.Entry{
				{Lane: report.Operator, Text: " ", Detail: " "},
				{Lane: " ", At: -5, Text: " ", Bad: true},
				{Lane: report.Fault, At: 1 << 62, Text: " ", Bad: true},
				{Lane: report.Log, Text: long, Detail: strings.Repeat("line\n", 5_000)},
				{Lane: report.Log, At: time.Second},
			},
		}
	}
	r := &report.Report{
		Operator: " ", Steps: []string{" "}, Notes: []string{" "}, Duration: 1<<63 - 1,
		Skipped: []report.Skipped{{Reason: " ", Plans: []string{" "}}},
		Runs:    []report.Run{run(report.Failed), run(report.Passed), run(report.Untried), run(" ")},
	}
	poison(reflect.ValueOf(r).Elem())
	return r
}

// poison replaces every text that is a blank.
func poison(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // the others hold no text
	case reflect.String:
		if v.String() == " " {
			v.SetString(evil)
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i))
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			if f.CanSet() {
				poison(f)
			}
		}
	}
}
