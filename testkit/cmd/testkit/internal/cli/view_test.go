package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// exampleSnapshot returns a sandbox like that of make up.
func exampleSnapshot() snapshot {
	var current snapshot
	for _, name := range []string{"configrollout", "copyrator", "immortalcontainer", "myapp"} {
		current.Operators = append(current.Operators, operatorLine{Name: name, Status: sandbox.Status{PID: 4711}})
	}
	for _, kind := range []string{"CopyratorRule", "ImmortalContainer", "MyApp", "Deployment"} {
		current.Tables = append(current.Tables, sandbox.Table{
			Kind: kind, Columns: []string{"NAMESPACE", "NAME", "IMAGE", "AGE", "CONDITIONS"},
			Rows: []sandbox.Row{
				{Cells: []string{"default", "first-" + strings.ToLower(kind), "nginx:latest", "7s", "Ready !Reconciling !Stalled"}},
				{Cells: []string{"default", "second-" + strings.ToLower(kind), "nginx:latest", "9s", "Ready !Reconciling !Stalled"}},
			},
		})
	}
	return current
}

func TestLayout(t *testing.T) {
	t.Parallel()
	exports := []string{
		"  export KUBECONFIG=/run/user/1000/homeostat/" + strings.Repeat("x", 40) + "/kubeconfig",
		"  export PATH=/home/username/.cache/homeostat/assets/built-v1.37.2-linux-amd64-0123456789ab:$PATH",
	}
	kept := []string{
		"Everything is ready. To use it:\n\n" + strings.Join(exports, "\n"), "To stop it: Ctrl-C here",
		"Things to try:\n\n  kubectl get this\n  kubectl get that\n  kubectl delete pod of-username\n  a\n  b\n  c\n",
	}
	for name, test := range map[string]struct {
		reason        string
		width, height int
		want, not     []string
	}{
		"usual": {
			"what to paste has to be in sight, whole, and the operators' own objects",
			80, 24,
			append(exports, "operator myapp runs as process 4711", "To stop it: Ctrl-C here", "CopyratorRule", "more lines"),
			[]string{"kubectl get this"},
		},
		"large": {
			"there is room for all",
			100, 60, append(exports, "Things to try:", "second-deployment", "To stop it"),
			[]string{"more lines"},
		},
		"tiny": {"the commands to paste are removed last", 80, 9, exports, []string{"To stop it"}},
	} {
		current := exampleSnapshot()
		lines := layout(&current, kept, test.width, test.height)
		text := strings.Join(lines, "\n")
		onScreen := 0
		for _, line := range lines {
			onScreen++
			for n := utf8.RuneCountInString(line); n > test.width; n -= test.width {
				onScreen++ // a terminal wraps
			}
		}
		if onScreen >= test.height || onScreen != lineCount(lines, test.width) {
			t.Errorf("%s: it takes %d lines of %d:\n%s", name, onScreen, test.height, text)
		}
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s, because %s: there is no %q in\n%s", name, test.reason, want, text)
			}
		}
		for _, not := range test.not {
			if strings.Contains(text, not) {
				t.Errorf("%s, because %s: there is %q in\n%s", name, test.reason, not, text)
			}
		}
		for _, line := range lines {
			if !slices.Contains(exports, line) && utf8.RuneCountInString(line) >= test.width {
				t.Errorf("%s: too long: %q", name, line)
			}
		}
	}
	if got := layout(nil, nil, 80, 24); len(got) != 0 {
		t.Errorf("nothing takes %d lines", len(got))
	}
}

func TestColumnsShrink(t *testing.T) {
	t.Parallel()
	rows := [][]string{
		{"NAMESPACE", "NAME", "AGE", "CONDITIONS"},
		{"default", strings.Repeat("n", 25), "7s", strings.Repeat("c", 40)},
	}
	for width, want := range map[int][]int{
		100: {9, 25, 3, 40}, // all have their natural width
		70:  {9, 25, 3, 27}, // the widest shrinks
		48:  {9, 15, 3, 15}, // then both
		20:  {9, 10, 3, 10}, // to the minimum width
	} {
		if diff := cmp.Diff(want, columnWidths(rows, width)); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", width, diff)
		}
	}
	table := render(snapshot{Tables: []sandbox.Table{{
		Kind: "K", Columns: rows[0], Rows: []sandbox.Row{{Cells: rows[1]}},
	}}}, 49)
	want := fmt.Sprintf("\nK\n%-9s  %-15s  %-3s  %s\n%-9s  %s…  %-3s  %s…\n", "NAMESPACE", "NAME", "AGE", "CONDITIONS",
		"default", strings.Repeat("n", 14), "7s", strings.Repeat("c", 14))
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	current := snapshot{Tables: []sandbox.Table{{
		Kind: "K", Columns: rows[0], Rows: []sandbox.Row{{Namespace: "default", Cells: rows[1]}},
	}}}
	for width, want := range map[int]bool{100: true, 49: false} {
		if got := strings.Contains(render(current, width), "NAMESPACE"); got != want {
			t.Errorf("width %d: with the namespace: %t, although it is default everywhere and the table has room for it: %t",
				width, got, want)
		}
	}
}
