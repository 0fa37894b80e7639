//go:build linux

package scripts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/operators/database/internal/scripts"
)

// A member is one server of a database, with the environment of its pod.
type member struct {
	t       *testing.T
	engine  string
	ordinal int
	env     map[string]string
	dir     string
	running *server // the last launched one
	sockets string  // directory of the server's sockets, if it is another one
}

// credentials contain characters that require correct quoting.
var credentials = map[string]string{
	"password": `p'a\ss:w"ö$(rd)`, "dump-password": `du:m\p'`, "replication-password": `re:pl\'i c"a#`,
}

// account returns the unprivileged user of an engine's servers.
func account(t *testing.T, engine string) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup(map[string]string{"postgresql": "postgres", "mariadb": "mysql", "mysql": "mysql"}[engine])
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// missing skips the test, or fails it in an environment that has to have everything.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// programs returns a PATH with the programs of the engine, or skips the test.
func programs(t *testing.T, engine string) string {
	t.Helper()
	if engine == "postgresql" { // Debian does not include them in PATH
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
		if len(found) == 0 {
			missing(t, "PostgreSQL is not installed: apt-get install postgresql")
		}
		return found[len(found)-1] + ":" + os.Getenv("PATH")
	}
	if _, err := exec.LookPath("mariadbd"); err != nil {
		missing(t, "MariaDB is not installed: apt-get install mariadb-server")
	}
	return os.Getenv("PATH")
}

// firstPort and lastPort are below the ephemeral ports of Linux, because a client could occupy one before the server
// listens.
const firstPort, lastPort = 10_000, 32_767

var (
	start = rand.IntN(lastPort - firstPort)
	tried atomic.Int64
)

// freePort returns an unused port, another one each time.
func freePort(t *testing.T) int {
	t.Helper()
	for range lastPort - firstPort {
		port := firstPort + (start+int(tried.Add(1)))%(lastPort-firstPort)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// memory returns a directory in memory if one has room for many databases.
func memory() string {
	const shared = "/dev/shm"
	var fs syscall.Statfs_t
	if syscall.Statfs(shared, &fs) == nil && fs.Bavail*uint64(fs.Bsize) > 4<<30 {
		return shared
	}
	return ""
}

// newPrimary prepares member 0 of a new database.
func newPrimary(t *testing.T, engine string) *member {
	t.Helper()
	path := programs(t, engine)
	dir, err := os.MkdirTemp(memory(), "database") //nolint:usetesting // short: the names of sockets have a limit.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killProcesses(dir); _ = os.RemoveAll(dir) })
	m := &member{t: t, engine: engine, dir: dir, env: map[string]string{
		"PATH": path, "LISTEN": "127.0.0.1", "PRIMARY_HOST": "127.0.0.1", "PRIMARY_PORT": strconv.Itoa(freePort(t)),
		"DATABASE": "app", "DATABASE_USER": "app", "CREDENTIALS": dir + "/credentials", "CONFIG": dir + "/config",
		"PATIENCE": "0",
	}}
	all, err := scripts.Of(engine)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range all {
		m.write("scripts/"+name, text)
	}
	for name, text := range credentials {
		m.write("credentials/"+name, text)
	}
	m.write("config/custom.conf", "max_connections = 42\nlog_statement = all\nfsync = off\n"+
		"dynamic_shared_memory_type = mmap\nwal_retrieve_retry_interval = 200ms\n")
	m.write("config/custom.cnf", "[mysqld]\nmax_connections = 42\ngeneral_log = ON\ninnodb_flush_log_at_trx_commit = 0\n"+
		"sync_binlog = 0\n")
	m.place(0)
	return m
}

// startPrimary returns a running primary.
func startPrimary(t *testing.T, engine string) *member {
	t.Helper()
	m := newPrimary(t, engine)
	m.mustRun("init.sh")
	m.start()
	return m
}

// write writes a file in the directory of the database.
func (m *member) write(name, text string) {
	m.t.Helper()
	file := filepath.Join(m.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		m.t.Fatal(err)
	}
	m.chownFiles()
}

// program adds a program in front of PATH; its text can call the hidden one as real.
func (m *member) program(name, text string) {
	m.t.Helper()
	for dir := range strings.SplitSeq(m.env["PATH"], ":") {
		if _, err := os.Stat(dir + "/" + name); err == nil && dir != m.home()+"/bin" {
			text = "#!/bin/bash\nreal() { " + dir + "/" + name + ` "$@"; }` + "\n" + text + "\n"
			break
		}
	}
	bin := strconv.Itoa(m.ordinal) + "/bin/"
	m.write(bin+name, text)
	if err := os.Chmod(m.dir+"/"+bin+name, 0o755); err != nil {
		m.t.Fatal(err)
	}
	if dir := m.home() + "/bin:"; !strings.HasPrefix(m.env["PATH"], dir) {
		m.env["PATH"] = dir + m.env["PATH"]
	}
}

// read returns the text of a file in the directory of the database.
func (m *member) read(name string) string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

// place sets the ordinal of the member and its own directories.
func (m *member) place(ordinal int) {
	m.ordinal = ordinal
	home := m.home()
	m.env["MEMBER"], m.env["SOCKETS"], m.env["TERMINATION_LOG"] = strconv.Itoa(ordinal), home+"/run", home+"/termination-log"
	m.env["PGDATA"], m.env["DATADIR"], m.env["TMPDIR"] = home+"/data", home+"/data", home+"/tmp"
	err := errors.Join(os.MkdirAll(home+"/run", 0o755), os.MkdirAll(home+"/tmp", 0o755),
		os.WriteFile(m.env["TERMINATION_LOG"], nil, 0o666))
	if err != nil {
		m.t.Fatal(err)
	}
	m.chownFiles()
}

// home returns the directory of this member.
func (m *member) home() string { return fmt.Sprintf("%s/%d", m.dir, m.ordinal) }

// chownFiles makes the user of the servers the owner of all files.
func (m *member) chownFiles() {
	c := account(m.t, m.engine)
	if c == nil {
		return
	}
	_ = filepath.WalkDir(m.dir, func(path string, _ os.DirEntry, _ error) error {
		_ = os.Lchown(path, int(c.Uid), int(c.Gid)) // the file may be gone
		return nil
	})
}

// replica returns another member of the same database with a port of its own.
func (m *member) replica(ordinal int) *member {
	r := &member{t: m.t, engine: m.engine, dir: m.dir, env: maps.Clone(m.env)}
	r.place(ordinal)
	r.env["PORT"] = strconv.Itoa(freePort(m.t))
	return r
}

// script prepares a script or a program.
func (m *member) script(ctx context.Context, name string, args ...string) *exec.Cmd {
	if strings.HasSuffix(name, ".sh") {
		name, args = "bash", append([]string{m.dir + "/scripts/" + name}, args...)
	}
	for dir := range strings.SplitSeq(m.env["PATH"], ":") {
		if _, err := os.Stat(dir + "/" + name); err == nil {
			name = dir + "/" + name
			break
		}
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = m.home()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: account(m.t, m.engine), Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 20 * time.Second
	for k, v := range m.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}

// mustRun runs a command and returns its output.
func (m *member) mustRun(name string, args ...string) string {
	m.t.Helper()
	var out, log bytes.Buffer
	cmd := m.script(m.t.Context(), name, args...)
	cmd.Stdout = &out
	cmd.Stderr = &log
	if err := cmd.Run(); err != nil {
		m.t.Fatalf("%s: %v\n%s%s", name, err, out.String(), log.String())
	}
	return strings.TrimSpace(out.String())
}

// refused runs a failing script and returns its termination message.
func (m *member) refused(name string) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 30*time.Second)
	defer cancel()
	out, err := m.script(ctx, name).CombinedOutput()
	if err == nil || ctx.Err() != nil {
		m.t.Fatalf("%s succeeds:\n%s", name, out)
	}
	if hashOfPassword.Match(out) {
		m.t.Errorf("the log has the hash of a password:\n%s", out)
	}
	return m.terminationLog()
}

// hashOfPassword matches the hashes of MariaDB and of PostgreSQL.
var hashOfPassword = regexp.MustCompile(`\*[0-9A-F]{40}|SCRAM-SHA-256\$`)

// refuses runs a script and checks that it fails with this message.
func (m *member) refuses(name, why string) {
	m.t.Helper()
	if got := m.refused(name); !strings.Contains(got, why) {
		m.t.Errorf("it says %q, not %q", got, why)
	}
}

// terminationLog returns the termination message.
func (m *member) terminationLog() string {
	m.t.Helper()
	why, err := os.ReadFile(m.env["TERMINATION_LOG"])
	if err != nil {
		m.t.Fatal(err)
	}
	return string(why)
}

// conninfo quotes the name of the database.
func (m *member) conninfo() string {
	return "dbname='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(m.env["DATABASE"]) + "'"
}

// query runs statements as the superuser.
func (m *member) query(sql string) string {
	m.t.Helper()
	answer, err := m.try(sql)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", sql, err, answer)
	}
	return answer
}

// try is query with an error.
func (m *member) try(sql string) (string, error) {
	sockets := m.env["SOCKETS"]
	if m.sockets != "" {
		sockets = m.sockets
	}
	args := []string{
		"psql", "--host=" + sockets, "--port=" + m.port(), "--username=postgres", "--dbname=" + m.conninfo(),
		"--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--command=" + sql,
	}
	if m.engine != "postgresql" {
		args = []string{
			"mariadb", "--no-defaults", "--socket=" + sockets + "/server.sock", "--user=root", "--default-character-set=utf8mb4",
			"--batch", "--raw", "--skip-column-names",
			"--database=" + m.env["DATABASE"], "--execute=" + sql,
		}
	}
	out, err := m.script(m.t.Context(), args[0], args[1:]...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// login runs statements over the network, as an application does.
func (m *member) login(user, password, sql string) string {
	m.t.Helper()
	args := []string{
		"psql", "--host=127.0.0.1", "--port=" + m.port(), "--username=" + user, "--dbname=" + m.conninfo(),
		"--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--no-password", "--command=" + sql,
	}
	if m.engine != "postgresql" {
		args = []string{
			"mariadb", "--no-defaults", "--host=127.0.0.1", "--port=" + m.port(), "--user=" + user,
			"--default-character-set=utf8mb4", "--batch", "--raw", "--skip-column-names",
			"--database=" + m.env["DATABASE"], "--execute=" + sql,
		}
	}
	cmd := m.script(m.t.Context(), args[0], args[1:]...)
	cmd.Env = append(cmd.Env, "PGPASSWORD="+password, "MYSQL_PWD="+password)
	out, _ := cmd.CombinedOutput()
	return strings.TrimSpace(string(out))
}

// eventually waits for a result.
func (m *member) eventually(sql, want string) {
	m.t.Helper()
	var got string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		if got, _ = m.try(sql); got == want {
			return
		}
	}
	m.t.Fatalf("%s: %q, want %q", sql, got, want)
}
