package assets

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPrint(t *testing.T) {
	compiling := func(done int, elapsed time.Duration) Progress {
		return Progress{Phase: "compiling packages", Done: done, Total: 2793, Elapsed: elapsed}
	}
	events := []Progress{
		{Notice: "this takes 7 minutes"},
		{Phase: "downloading modules", Elapsed: time.Second},
		{Phase: "downloading modules", Done: 17, Elapsed: 2 * time.Second},
		compiling(1, 30*time.Second),
		compiling(2, 31*time.Second),
		compiling(300, 190*time.Second),
		{Phase: "linking", Elapsed: 191 * time.Second},
		{Notice: "done", Elapsed: 200 * time.Second, Final: true},
	}
	tests := map[string]struct {
		reason  string
		printTo func(*bytes.Buffer) func(Progress)
		want    string
	}{
		"log": {
			reason:  "a log gets a line for a new step, and for an old one only at intervals",
			printTo: func(b *bytes.Buffer) func(Progress) { return Print(b) },
			want: "[    0s] this takes 7 minutes\n" +
				"[    1s] downloading modules\n" +
				"[   30s] compiling packages: 1 of at most 2793\n" +
				"[ 3m10s] compiling packages: 300 of at most 2793\n" +
				"[ 3m11s] linking\n" +
				"[ 3m20s] done\n",
		},
		"terminal": {
			reason:  "on a terminal a step rewrites its line, and a notice stays",
			printTo: func(b *bytes.Buffer) func(Progress) { return printRewriting(b) },
			want: "\r\x1b[K[    0s] this takes 7 minutes\n" +
				"\r\x1b[K[    1s] downloading modules" +
				"\r\x1b[K[    2s] downloading modules: 17" +
				"\r\x1b[K[   30s] compiling packages: 1 of at most 2793" +
				"\r\x1b[K[   31s] compiling packages: 2 of at most 2793" +
				"\r\x1b[K[ 3m10s] compiling packages: 300 of at most 2793" +
				"\r\x1b[K[ 3m11s] linking" +
				"\r\x1b[K[ 3m20s] done\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			printProgress := tc.printTo(&b)
			for _, p := range events {
				printProgress(p)
			}
			if diff := cmp.Diff(tc.want, b.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
