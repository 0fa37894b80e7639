package scripts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A member is one server of a database, with what its pod would give it.
type member struct {
	t       *testing.T
	ordinal int
	env     map[string]string
	dir     string
}

// unprivileged is who runs servers: none runs as root.
func unprivileged(t *testing.T, name string) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// programs adds the folder of PostgreSQL's programs to PATH, which Debian keeps out of it.
func programs(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed: apt-get install postgresql")
	}
	return found[len(found)-1] + ":" + os.Getenv("PATH")
}

// freePort finds one that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP.
}

// newPrimary prepares member 0 of a database of its own.
func newPrimary(t *testing.T) *member {
	t.Helper()
	path := programs(t)
	dir, err := os.MkdirTemp("", "database") // short: the names of sockets have a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &member{t: t, dir: dir, env: map[string]string{
		"PATH": path, "LISTEN": "127.0.0.1", "PRIMARY_HOST": "127.0.0.1", "PRIMARY_PORT": strconv.Itoa(freePort(t)),
		"DATABASE": "app", "DATABASE_USER": "app", "CREDENTIALS": dir + "/credentials", "CONFIG": dir + "/config",
	}}
	for name, text := range map[string]string{
		"credentials/password": "p'a\\ss:word", "credentials/superuser-password": "super",
		"credentials/replication-password": "re:pl\\'ica", "config/custom.conf": "max_connections = 42\n",
	} {
		m.write(name, text)
	}
	m.place(0)
	return m
}

func (m *member) write(name, text string) {
	m.t.Helper()
	file := filepath.Join(m.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		m.t.Fatal(err)
	}
}

// place gives the member its ordinal and its own directories.
func (m *member) place(ordinal int) {
	m.ordinal = ordinal
	home := fmt.Sprintf("%s/%d", m.dir, ordinal)
	m.env["MEMBER"], m.env["PGDATA"], m.env["SOCKETS"] = strconv.Itoa(ordinal), home+"/pgdata", home+"/run"
	m.env["TERMINATION_LOG"] = home + "/termination-log"
	if err := errors.Join(os.MkdirAll(home+"/run", 0o755), os.WriteFile(m.env["TERMINATION_LOG"], nil, 0o666)); err != nil {
		m.t.Fatal(err)
	}
	m.own(m.dir)
}

func (m *member) own(dir string) {
	c := unprivileged(m.t, "postgres")
	if c == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
		return os.Lchown(path, int(c.Uid), int(c.Gid))
	})
}

// replica is another member of the same database, on a port of its own.
func (m *member) replica(ordinal int) *member {
	r := &member{t: m.t, dir: m.dir, env: map[string]string{}}
	for k, v := range m.env {
		r.env[k] = v
	}
	r.place(ordinal)
	return r
}

// script prepares a script, or a program.
func (m *member) script(ctx context.Context, name string, args ...string) *exec.Cmd {
	if strings.HasSuffix(name, ".sh") {
		abs, err := filepath.Abs("postgresql/" + name)
		if err != nil {
			m.t.Fatal(err)
		}
		name, args = "bash", append([]string{abs}, args...)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = m.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: unprivileged(m.t, "postgres")}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 20 * time.Second
	for k, v := range m.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}

// must runs it and returns what it prints.
func (m *member) must(name string, args ...string) string {
	m.t.Helper()
	out, err := m.script(m.t.Context(), name, args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return strings.TrimSpace(string(out))
}

// refused runs it and returns why it gives up, as the pod would tell.
func (m *member) refused(name string) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	defer cancel()
	if out, err := m.script(ctx, name).CombinedOutput(); err == nil || ctx.Err() != nil {
		m.t.Fatalf("%s goes on:\n%s", name, out)
	}
	why, err := os.ReadFile(m.env["TERMINATION_LOG"])
	if err != nil {
		m.t.Fatal(err)
	}
	return string(why)
}

// start runs the server until the test ends or stop is called.
func (m *member) start(port int) (stop func()) {
	m.t.Helper()
	if port != 0 {
		m.env["PORT"] = strconv.Itoa(port)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(m.t.Context()))
	cmd := m.script(ctx, "run.sh")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	m.t.Cleanup(stop)
	deadline := time.After(30 * time.Second)
	for {
		if m.script(m.t.Context(), "pg_isready", "--quiet", "--host="+m.env["SOCKETS"], "--port="+m.port()).Run() == nil {
			return stop
		}
		select {
		case err := <-ended:
			ended <- err
			m.t.Fatalf("the server ended: %v\n%s", err, out.String())
		case <-deadline:
			m.t.Fatalf("the server does not answer:\n%s", out.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (m *member) port() string {
	if p := m.env["PORT"]; p != "" {
		return p
	}
	return m.env["PRIMARY_PORT"]
}

// query asks the server as the superuser.
func (m *member) query(sql string) string {
	m.t.Helper()
	return m.must("psql", "--host="+m.env["SOCKETS"], "--port="+m.port(), "--username=postgres", "--dbname=app", "--no-psqlrc",
		"--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--command="+sql)
}

// login asks over the network, as an application does.
func (m *member) login(user, password, sql string) string {
	m.t.Helper()
	cmd := m.script(m.t.Context(), "psql", "--host=127.0.0.1", "--port="+m.port(), "--username="+user, "--dbname=app",
		"--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--no-password", "--command="+sql)
	cmd.Env = append(cmd.Env, "PGPASSWORD="+password)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out)
	}
	return strings.TrimSpace(string(out))
}

// eventually waits for an answer.
func (m *member) eventually(sql, want string) {
	m.t.Helper()
	var got string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		if got = m.query(sql); got == want {
			return
		}
	}
	m.t.Fatalf("%s: %q, want %q", sql, got, want)
}

const checksum = "SELECT count(*) || ' ' || coalesce(md5(string_agg(id || ':' || text, ',' ORDER BY id)), '') FROM orders"

// A replica is a copy of the primary and follows it, over the network and with passwords of any kind.
func TestReplicaFollowsThePrimary(t *testing.T) {
	t.Parallel()
	primary := newPrimary(t)
	primary.must("init.sh")
	primary.start(0)
	if got := primary.query("SHOW max_connections"); got != "42" {
		t.Errorf("max_connections is %s: the user's settings do not count", got)
	}
	if got := primary.login("app", "p'a\\ss:word", "SELECT current_user"); got != "app" {
		t.Errorf("the owner is %s", got)
	}
	primary.query("CREATE TABLE orders (id int PRIMARY KEY, text text)")
	primary.query("INSERT INTO orders SELECT i, md5(i::text) FROM generate_series(1, 1000) AS i")
	replica := primary.replica(1)
	replica.must("init.sh")
	replica.start(freePort(t))
	primary.query("INSERT INTO orders SELECT i, md5(i::text) FROM generate_series(1001, 2000) AS i")
	replica.eventually(checksum, primary.query(checksum))
	if got := replica.query("SELECT pg_is_in_recovery()"); got != "t" {
		t.Error("the replica accepts writes")
	}
	if got := primary.query("SELECT application_name || ' ' || state FROM pg_stat_replication"); got != "member_1 streaming" {
		t.Errorf("the primary knows of %q", got)
	}
}

// Nobody gets in without the right password, from this host either.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	primary := newPrimary(t)
	primary.must("init.sh")
	primary.start(0)
	for user, password := range map[string]string{"app": "", "postgres": "", "replication": "p'a\\ss:word"} {
		if got := primary.login(user, password, "SELECT 1"); got == "1" {
			t.Errorf("%s gets in with %q", user, password)
		}
	}
	if got := primary.login("postgres", "super", "SELECT 1"); got != "1" {
		t.Errorf("the superuser does not get in: %s", got)
	}
}

// However often it is ended in the middle, there are complete data in the end or none.
func TestInitIsInterrupted(t *testing.T) {
	t.Parallel()
	primary := newPrimary(t)
	complete := primary.env["PGDATA"] + "/PG_VERSION"
	after := 50 * time.Millisecond
	for tries := 0; ; tries++ {
		cmd := primary.script(t.Context(), "init.sh")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("try %d: %v", tries, err)
			}
			if tries < 2 {
				t.Errorf("it was interrupted %d times only", tries)
			}
			primary.start(0)
			if got := primary.login("app", "p'a\\ss:word", "SELECT 1"); got != "1" {
				t.Errorf("after %d tries the owner cannot work: %s", tries, got)
			}
			return
		case <-time.After(after):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // as a node that is lost
			<-ended
		}
		if _, err := os.Stat(complete); err == nil {
			t.Log("it was complete when it was ended, after", after)
		}
		after = after * 3 / 2
	}
}

// What may not be started, or written over, says why.
func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ordinal int
		prepare func(m *member)
		script  string
		says    string
	}{
		"data of another major version": {
			0, func(m *member) { m.write("0/pgdata/PG_VERSION", "9\n") }, "init.sh", "the data are of PostgreSQL 9 and the image is",
		},
		"the same when it starts": {
			0, func(m *member) { m.write("0/pgdata/PG_VERSION", "9\n") }, "run.sh", "bootstrapFrom",
		},
		"somebody else's files": {
			0, func(m *member) { m.write("0/pgdata/precious", "x") }, "init.sh", "nothing is put over it",
		},
		"no data": {0, func(*member) {}, "run.sh", "was not initialized"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newPrimary(t)
			c.prepare(m)
			m.own(m.dir)
			if why := m.refused(c.script); !strings.Contains(why, c.says) {
				t.Errorf("it says %q, want %q", why, c.says)
			}
			if c.ordinal == 0 && name == "somebody else's files" {
				if _, err := os.Stat(m.dir + "/0/pgdata/precious"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// There is one primary, whatever somebody does to a replica.
func TestPromotedReplicaIsRefused(t *testing.T) {
	t.Parallel()
	primary := newPrimary(t)
	primary.must("init.sh")
	primary.start(0)
	primary.query("CREATE TABLE orders (id int PRIMARY KEY, text text)")
	replica := primary.replica(1)
	replica.must("init.sh")
	stop := replica.start(freePort(t))
	replica.query("SELECT pg_promote()")
	replica.query("INSERT INTO orders VALUES (1, 'only here')")
	stop()
	if why := replica.refused("run.sh"); !strings.Contains(why, "member 1 was promoted") {
		t.Errorf("it says %q", why)
	}
	replica.env["MEMBER"] = "0"
	replica.write("1/pgdata/standby.signal", "")
	if why := replica.refused("run.sh"); !strings.Contains(why, "are those of a replica") {
		t.Errorf("it says %q", why)
	}
}
