//go:build linux

package scripts_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// The scripts of PostgreSQL run with the programs of the Alpine image: bash, busybox and PostgreSQL.
func TestBusybox(t *testing.T) {
	t.Parallel()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		missing(t, "busybox is not installed: apt-get install busybox")
	}
	m := newPrimary(t, "postgresql")
	m.set("FORMAT=plain VERIFY=restore GLOBALS=true HOST=127.0.0.1 KEEP=1 NAME=a-2")
	m.env["BACKUPS"], m.env["PORT"], m.env["KEEP_FOR"] = m.home()+"/backups", m.port(), "60"
	bin := m.home() + "/bin"
	for _, name := range []string{
		"backups/a-1/about.json", "backups/b-1/about.json", "backups/c-1/about.json", "backups/.partial.aaaaaa/x", "bin/none",
	} {
		m.write("0/"+name, `{"finished":1}`)
	}
	m.write("0/backups/c-1/about.json", "{}") // as an earlier version wrote it
	m.setAge("c-1", time.Hour)
	applets, err := exec.CommandContext(t.Context(), busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(strings.Fields(string(applets)), "bash", "flock") {
		target := busybox
		switch name {
		case "bash":
			target = "/bin/bash"
		case "flock": // an applet in Alpine's busybox, and not in Debian's
			target = "/usr/bin/flock"
		}
		if err := os.Symlink(target, bin+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	postgres, _, _ := strings.Cut(m.env["PATH"], ":")
	m.env["PATH"] = postgres + ":" + bin
	m.mustRun("init.sh")
	m.start()
	m.login("app", credentials["password"], fill)
	before := m.query(checksum)
	m.mustRun("dump.sh")
	complete := slices.DeleteFunc(m.dumps(), func(name string) bool { return strings.HasPrefix(name, ".") })
	if want := []string{"a-2", "b-1", "c-1"}; !slices.Equal(complete, want) {
		t.Errorf("there are %q, want %q", complete, want)
	}
	m.into(t, "app", "").restores("a-2", checksum, before)
	replica := m.replica(1)
	replica.mustRun("init.sh")
	replica.start()
	replica.eventually(checksum, before)
	m.env["NAMES"] = "a-2"
	if got := m.runForResult("prune.sh"); !slices.Equal(got.Left, []string{"c-1", "b-1"}) {
		t.Errorf("the result is %+v", got)
	}
}
