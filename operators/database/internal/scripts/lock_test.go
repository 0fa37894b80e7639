//go:build linux

package scripts_test

import (
	"fmt"
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

// startInPod starts the server in namespaces of its own, and waits until it is ready. It returns the PID of process 1 there.
func (m *member) startInPod(t *testing.T) int {
	t.Helper()
	m.mustRun("init.sh")
	log := &logs{}
	cmd := m.inPod(t, "run.sh")
	cmd.Stdout = log
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	m.running = &server{home: m.home(), log: log, ended: make(chan struct{})}
	m.becomes(m.running, "ready", true)
	inside := children(t, cmd.Process.Pid)
	if len(inside) != 1 {
		t.Fatalf("unshare has the children %v", inside)
	}
	return inside[0]
}

// children returns the PIDs of the children of a process.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	list, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.FieldsSeq(string(list)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// The client of a probe that kubelet has killed becomes a child of process 1 of the container. It is reaped, and its failure
// ends no process of the server.
func TestOrphanedProcess(t *testing.T) {
	t.Parallel()
	// After a crash, the checkpointer is another process.
	const checkpointer = "SELECT pid FROM pg_catalog.pg_stat_activity WHERE backend_type = 'checkpointer'"
	for _, engine := range []string{"postgresql", "mariadb"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			m := newPrimary(t, engine)
			process1 := m.startInPod(t)
			before := ""
			if engine == "postgresql" {
				before = m.query(checkpointer)
			}
			m.write("ended", "")
			out, err := exec.CommandContext(t.Context(), "nsenter", "--target="+strconv.Itoa(process1), "--pid", "bash", "-c",
				`for i in {1..3}; do (sleep 0.2; echo "$i" >>"$0"; exit 2) </dev/null >/dev/null 2>&1 & done`, m.dir+"/ended").
				CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
				lines := strings.Count(m.read("ended"), "\n")
				pids := children(t, process1)
				if lines == 3 && len(pids) == 1 {
					break // the server
				}
				if time.Since(began) > 10*time.Second {
					t.Fatalf("%d of 3 orphaned processes have ended, and process 1 has the children %v", lines, pids)
				}
			}
			if engine == "postgresql" {
				if after := m.query(checkpointer); after != before {
					t.Errorf("the checkpointer was process %s and is %s: the server has restarted its processes", before, after)
				}
			}
		})
	}
}

// The script ends with the status of the server, which gets the signals to the script.
func TestStatusOfServer(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"postgresql", "mariadb"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			m := startPrimary(t, engine)
			stopped := m.running
			stopped.stop()
			if stopped.code != 0 {
				t.Errorf("a stopped server has status %d", stopped.code)
			}
			killed := m.start()
			_ = syscall.Kill(children(t, killed.pid)[0], syscall.SIGKILL)
			<-killed.ended
			if want := 128 + int(syscall.SIGKILL); killed.code != want {
				t.Errorf("a killed server has status %d, want %d", killed.code, want)
			}
		})
	}
}

// A second server, in another pod, never gets the data directory of the first one, and the first one is not disturbed.
func TestSecondServerIsRejected(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"postgresql", "mariadb"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			m := newPrimary(t, engine)
			m.startInPod(t)
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
