package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// members runs a primary and a replica with the scripts of operators/database, as the user and with the volumes of its pods.
// It dumps the primary, and restores the dump to verify it. The functions owner and other run SQL on the first and second
// server.
const members = `
inside bash -euc '
. /query
export CREDENTIALS=/credentials PRIMARY_HOST=127.0.0.1 LISTEN=127.0.0.1 DATABASE=app DATABASE_USER=app CONFIG=/config
export BACKUPS=/backups HOST=127.0.0.1 TERMINATION_LOG=/tmp/message
member() {
  export MEMBER=$1 PORT=$2 SOCKETS=/run/database/$1 PGDATA=/var/lib/database/$1 DATADIR=/var/lib/database/$1
  mkdir "$SOCKETS"
  bash /scripts/init.sh
  bash /scripts/run.sh &
  until bash /scripts/probe.sh ready 2>/tmp/why; do
    kill -0 "$!" || { cat /tmp/why; exit 1; }
    sleep 0.2
  done
}
member 0 "$PRIMARY_PORT"
query "$PORT" "CREATE TABLE t (n int)"
query "$PORT" "INSERT INTO t VALUES (42)"
NAME=a-1 VERIFY=restore bash /scripts/dump.sh
bash /scripts/prune.sh
member 1 "$((PRIMARY_PORT + 1))"
until [ "$(query "$PORT" "SELECT n FROM t")" = 42 ]; do
  sleep 0.2
done
echo it is replicated
'
`

// runMembers runs members for an engine.
func runMembers(t *testing.T, name, engine, port, query string) {
	t.Helper()
	c := newContainer(t, name)
	for _, folder := range []string{"shared", engine} {
		files, err := filepath.Glob(filepath.Join(root, "operators/database/internal/scripts", folder, "*.sh"))
		if err != nil || len(files) == 0 {
			t.Fatal("there are no scripts", err)
		}
		for _, file := range files {
			c.write("scripts/"+filepath.Base(file), readFile(t, file))
		}
	}
	for _, credential := range []string{"password", "dump-password", "replication-password"} {
		c.write("credentials/"+credential, "secret of "+credential[:4])
	}
	c.write("config/none", "")
	c.write("query", query)
	out := c.run(members, "/var/lib/database /run/database /tmp /backups", "PRIMARY_PORT="+port)
	for _, want := range []string{`"verified":"restore"`, `"left":["a-1"]`, "it is replicated"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %s:\n%s", want, out)
		}
	}
}

func TestRealPostgreSQL(t *testing.T) {
	t.Parallel()
	runMembers(t, "postgres", "postgresql", "5432",
		`query() { PGPASSWORD="secret of pass" psql -h 127.0.0.1 -p "$1" -U app -d app -qtAX -v ON_ERROR_STOP=1 -c "$2"; }`)
}

func TestRealMariaDB(t *testing.T) {
	t.Parallel()
	runMembers(t, "mariadb", "mariadb", "3306",
		`query() { mariadb --no-defaults --skip-ssl -h 127.0.0.1 -P "$1" -u app -p"secret of pass" -N -e "$2" app; }`)
}

// The default commands run servers with the default folders and sockets, until the stop signal of the image.
func TestRealDefaultCommands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ install, query, signal, version string }{
		"postgres": {"initdb -A trust", "psql -U postgres -tAc 'SHOW server_version'", "INT", "15."},
		"mariadb": {
			"mariadb-install-db --auth-root-authentication-method=normal",
			"mariadb -u root -Ne 'SELECT VERSION()'", "TERM", "10.11.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := newContainer(t, name).run("inside "+c.install+` >/dev/null
serve "$@" & server=$!
until version=$(inside `+c.query+` 2>/dev/null); do
  kill -0 "$server"
  sleep 0.2
done
kill -`+c.signal+` "$server"
wait "$server"
echo "version $version has ended"`, "")
			if !strings.Contains(out, "version "+c.version) {
				t.Errorf("the output is\n%s", out)
			}
		})
	}
}

// The web server answers on port 80 with the default page, logs to standard output, and with the configuration of the sample
// of configrollout it answers as that says. It ends on the stop signal of the image.
func TestRealNginx(t *testing.T) {
	t.Parallel()
	const script = `
serve "$@" & server=$!
curl -sS --retry 100 --retry-connrefused --retry-delay 1 --max-time 10 http://127.0.0.1/
kill -QUIT "$server"; wait "$server"; echo ended`
	sample := readFile(t, filepath.Join(root, "operators/configrollout/config/samples/example.yaml"))
	_, sample, _ = strings.Cut(sample, "nginx.conf: |\n")
	sample, _, _ = strings.Cut(sample, "---")
	for config, want := range map[string]string{"": "Welcome to nginx", sample: "one"} {
		c := newContainer(t, "nginx")
		if config != "" {
			c.write("etc/nginx/nginx.conf", config)
		}
		out := c.run(script, "")
		if !strings.Contains(out, want) || !strings.Contains(out, `"GET / HTTP/1.1" 200`) || !strings.HasSuffix(out, "ended\n") {
			t.Errorf("with %q the output is\n%s", config, out)
		}
	}
}

func TestRealShells(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, want string }{
		"busybox": {
			`inside "$@" -c 'id -un; wget --help 2>&1 | grep -c Usage; awk "BEGIN { print 6 * 7 }"; ls -d /tmp /bin/sh'`,
			"root\n1\n42\n/bin/sh\n/tmp\n",
		},
		"python": {
			`OWNER=65532
inside "$@" -c 'import http.server, json, os, sqlite3, ssl, sys; print(sys.version[:4], os.getuid())'
inside python -c 'import zoneinfo; print(zoneinfo.ZoneInfo("Europe/Madrid"))'
stat -c '%a %F' "$ROOT"/{run/lock,tmp,bin}`,
			"3.11 65532\nEurope/Madrid\n1777 directory\n1777 directory\n777 symbolic link\n",
		},
	} {
		if out := newContainer(t, name).run(c.script, ""); out != c.want {
			t.Errorf("%s: the output is\n%s", name, out)
		}
	}
}

// The program of pods reaps processes without a parent, and ends with success on the termination signal.
func TestRealPause(t *testing.T) {
	t.Parallel()
	c := newContainer(t, "pause")
	cmd := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--kill-child",
		"chroot", "--userspec="+c.config.User, c.root, c.config.Entrypoint[0])
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pause string
	eventually(t, "it starts", func() bool {
		pause = children(strconv.Itoa(cmd.Process.Pid))
		return pause != "" && strings.HasPrefix(readFile(t, "/proc/"+pause+"/cmdline"), "/pause")
	})
	command(t, "nsenter", "--pid", "--target", pause, "sh", "-c", "true & true & exit")
	eventually(t, "it reaps processes", func() bool { return children(pause) == "" })
	command(t, "kill", "-TERM", pause)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// children returns the numbers of the processes that have this parent.
func children(process string) string {
	text, _ := os.ReadFile("/proc/" + process + "/task/" + process + "/children")
	return strings.TrimSpace(string(text))
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute it is not true that %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}
