package report_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

func TestWriteTimeline(t *testing.T) {
	t.Parallel()
	many := make([]report.Entry, 0, 500)
	for i := range cap(many) {
		many = append(many, report.Entry{
			At: time.Duration(i) * time.Millisecond, Lane: report.Cluster, Text: fmt.Sprintf("thing %03d", i),
			Bad: i%100 == 50,
		})
	}
	same := make([]report.Entry, 0, 500)
	for i := range cap(same) {
		same = append(same, report.Entry{At: time.Duration(i) * time.Millisecond, Lane: report.Log, Text: "no", Bad: true})
	}
	tests := map[string]struct {
		reason    string
		timeline  []report.Entry
		has, lack []string
		most      int
	}{
		"Short": {
			"it is shown as it is", many[:55],
			[]string{"Timeline, 55 entries", "thing 000", "thing 030", "thing 054"},
			[]string{"left out"},
			56,
		},
		"Long": {
			"the test failed at its end", many,
			[]string{"of 500 entries", "thing 000", "thing 050", "thing 053", "thing 450", "thing 499", "entries left out"},
			[]string{"thing 015", "thing 300"},
			110,
		},
		"Same": {
			"a hundred times the same is told once", same,
			[]string{"Timeline, 1 entry", "no (500 times in a row, until 0.499s)"},
			nil, 2,
		},
	}
	for name, tt := range tests {
		var b strings.Builder
		if err := report.WriteTimeline(&b, tt.timeline); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.has {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s lacks %q, because %s:\n%s", name, want, tt.reason, &b)
			}
		}
		for _, bad := range tt.lack {
			if strings.Contains(b.String(), bad) {
				t.Errorf("%s has %q, because %s:\n%s", name, bad, tt.reason, &b)
			}
		}
		if n := strings.Count(b.String(), "\n"); n > tt.most {
			t.Errorf("%s has %d lines:\n%s", name, n, &b)
		}
	}
}
