package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// terminal opens a pseudo-terminal of that size. Reading screen returns its output.
func terminal(t *testing.T, columns, rows uint16) (tty, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return tty, screen
}

func some(rows int) snapshot {
	table := sandbox.Table{Kind: "ImmortalContainer", Columns: []string{"NAMESPACE", "NAME", "READY"}}
	for i := range rows {
		name := fmt.Sprintf("container-%d", i)
		table.Rows = append(table.Rows, sandbox.Row{Namespace: "default", Name: name, Cells: []string{"default", name, "True"}})
	}
	return snapshot{Tables: []sandbox.Table{table}}
}

// TestTableOnATerminal checks that the table is redrawn in place, cut to the size of the terminal. A terminal of
// unknown size, such as a CI's or an editor's, counts as 80 columns and 24 lines.
func TestTableOnATerminal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		columns, rows uint16
		objects       int
		want, not     []string
		longest       int
	}{
		"fits":     {100, 30, 2, []string{"container-0", "container-1"}, []string{"more lines"}, 99},
		"too high": {100, 8, 20, []string{"container-0", "... and 17 more lines"}, []string{"container-4"}, 99},
		"narrow":   {17, 30, 2, []string{"container…  True"}, []string{"container-0"}, 16},
		"no size":  {0, 0, 2, []string{"container-0", "container-1"}, nil, 79},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tty, screen := terminal(t, test.columns, test.rows)
			v := newView(tty)
			v.report("begins")
			v.show(some(test.objects))
			v.show(some(test.objects)) // replaces the first
			v.end()
			v.report("over")
			_ = screen.SetReadDeadline(time.Now().Add(10 * time.Second))
			shown, buffer := "", make([]byte, 4096)
			for !strings.Contains(shown, " over") {
				n, err := screen.Read(buffer)
				if err != nil {
					t.Fatalf("after %q: %v", shown, err)
				}
				shown += string(buffer[:n])
			}
			for _, want := range append(test.want, " begins", "\x1b[J") {
				if !strings.Contains(shown, want) {
					t.Errorf("there is no %q in %q", want, shown)
				}
			}
			for _, not := range test.not {
				if strings.Contains(shown, not) {
					t.Errorf("there is %q in %q", not, shown)
				}
			}
			for line := range strings.SplitSeq(shown, "\n") {
				text := line[strings.LastIndex(line, "\x1b[J")+1:]
				if utf8.RuneCountInString(strings.TrimPrefix(text, "[J")) > test.longest+1 {
					t.Errorf("%q is longer than the terminal is wide", line)
				}
			}
		})
	}
}
