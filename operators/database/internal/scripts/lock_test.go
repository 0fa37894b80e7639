//go:build linux

package scripts_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inPod prepares a script with the PID, IPC and mount namespaces of another pod.
func (m *member) inPod(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		missing(t, "namespaces require root")
	}
	cmd := m.script(t.Context(), script)
	user := account(t, m.engine)
	cmd.SysProcAttr.Credential = nil
	cmd.Path = "/usr/bin/unshare"
	cmd.Args = append([]string{
		"unshare", "--pid", "--ipc", "--mount", "--mount-proc", "--fork", "--kill-child", "setpriv",
		"--reuid=" + strconv.Itoa(int(user.Uid)), "--regid=" + strconv.Itoa(int(user.Gid)), "--clear-groups",
	}, cmd.Args...)
	return cmd
}

// A second server, in another pod, never gets the data directory of the first one, and the first one is not disturbed.
func TestSecondServerIsRejected(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"postgresql", "mariadb"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			m := newPrimary(t, engine)
			m.mustRun("init.sh")
			first := m.inPod(t, "run.sh")
			if err := first.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Kill(-first.Process.Pid, syscall.SIGKILL); _ = first.Wait() })
			m.running = &server{home: m.home(), log: &logs{}, ended: make(chan struct{})}
			m.becomes(m.running, "ready", true)
			m.login("app", credentials["password"], fillWith[engine])

			second := m.replica(1)
			second.env["MEMBER"], second.env["PGDATA"], second.env["DATADIR"] = "0", m.env["PGDATA"], m.env["DATADIR"]
			for _, script := range []string{"init.sh", "run.sh"} {
				log := &logs{}
				other := second.inPod(t, script)
				other.Stdout = log
				other.Stderr = log
				if err := other.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- other.Wait() }()
				select {
				case err := <-ended:
					if err == nil || !strings.Contains(second.terminationLog(), "another container uses the data in") {
						t.Errorf("%s: %v\n%s", script, err, log)
					}
				case <-time.After(10 * time.Second):
					_ = syscall.Kill(-other.Process.Pid, syscall.SIGKILL)
					t.Errorf("%s runs a second server (killed: %v):\n%s", script, <-ended, log)
				}
			}
			m.probes(map[string]bool{"live": true, "ready": true})
			if got := m.login("app", credentials["password"], "SELECT COUNT(*) FROM orders"); got != "1000" {
				t.Errorf("the first server has %s rows", got)
			}
		})
	}
}
