package scripts_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The scripts of PostgreSQL need nothing that the image of Alpine does not have: bash, busybox and PostgreSQL.
func TestBusybox(t *testing.T) {
	t.Parallel()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		missing(t, "busybox is not installed: apt-get install busybox")
	}
	m := newPrimary(t, "postgresql")
	m.set("FORMAT=plain VERIFY=restore GLOBALS=true HOST=127.0.0.1 KEEP=1 NAME=2")
	m.env["BACKUPS"], m.env["PORT"], m.env["KEEP_FOR"] = m.home()+"/backups", m.port(), "60"
	bin := m.home() + "/bin"
	for _, name := range []string{"backups/1/about.json", "backups/.partial.aaaaaa/x", "bin/none"} {
		m.write("0/"+name, "{}")
	}
	applets, err := exec.CommandContext(t.Context(), busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(strings.Fields(string(applets)), "bash") {
		target := busybox
		if name == "bash" {
			target = "/bin/bash"
		}
		if err := os.Symlink(target, bin+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	postgres, _, _ := strings.Cut(m.env["PATH"], ":")
	m.env["PATH"] = postgres + ":" + bin
	m.must("init.sh")
	m.start()
	m.login("app", credentials["password"], fill)
	before := m.query(checksum)
	m.must("dump.sh")
	m.login("app", credentials["password"], "DROP TABLE orders")
	if got := m.tells("restore.sh"); got.Name != "2" || m.query(checksum) != before {
		t.Errorf("it tells %+v", got)
	}
	replica := m.replica(1)
	replica.must("init.sh")
	replica.start()
	replica.eventually(checksum, before)
	m.env["NAMES"] = "2"
	if got := m.tells("prune.sh"); !slices.Equal(got.Left, []string{}) {
		t.Errorf("it tells %+v", got)
	}
}
