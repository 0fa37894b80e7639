# shellcheck shell=bash
# Common functions of the scripts for PostgreSQL.
#
# They run in the image of the server as the owner of the data directory. Environment variables:
#   PGDATA            the data directory; it exists if and only if it is complete
#   MEMBER            the ordinal of this member; 0 is the primary
#   PRIMARY_HOST      the host name of the primary
#   PRIMARY_PORT      the port of all members
#   DATABASE          the name of the database
#   DATABASE_USER     its owner
#   CREDENTIALS       a directory with the files password, dump-password and replication-password
#   SOCKETS           a private directory for sockets and temporary files
#   CONFIG            a directory with the user's settings, in files *.conf
# PORT and LISTEN override the port and the addresses of this member.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "${BASH_SOURCE[0]%/*}/common.sh"

# port prints the port of this member.
port() { printf '%s' "${PORT:-$PRIMARY_PORT}"; }

# literal prints an SQL string that is independent of the server's settings.
literal() { printf "E'%s'" "$(replace "$(replace "$1" \\ \\\\)" "'" "''")"; }

# identifier prints a quoted SQL identifier.
identifier() { printf '"%s"' "$(replace "$1" '"' '""')"; }

# major prints the major version of the program $1.
major() { "$1" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/'; }

# check_major rejects data of another major version, because no server can read them.
check_major() {
  local has wants
  has=$(<"$PGDATA/PG_VERSION")
  wants=$(major postgres)
  if [ "$has" != "$wants" ]; then
    give_up "the data are of PostgreSQL $has and the image is $wants: go back to version $has, or make a new Database" \
      "of version $wants with bootstrapFrom"
  fi
}

# conninfo prints the libpq setting of the database $1. An unquoted name could be parsed as settings.
conninfo() { printf "dbname='%s'" "$(replace "$(replace "$1" \\ \\\\)" "'" "\\'")"; }

# write_passfile writes the credential $1 to the file $2 in the format of libpq, which reads it for each connection. So the
# password is in no argument and no environment variable. Concurrent writes are safe.
write_passfile() {
  local text new
  text=$(credential "$1") || return
  new=$(mktemp "$2.XXXXXX") || return # with mode 0600
  printf '*:*:*:*:%s\n' "$(replace "$(replace "$text" \\ \\\\)" : '\:')" >"$new" && mv -f "$new" "$2"
}

# connection prints the libpq settings of a replica's connection to the server on the host $1.
connection() {
  printf 'host=%s port=%d user=replication application_name=member_%d passfile=%s' "$1" "$PRIMARY_PORT" "$MEMBER" \
    "$(follow_with)"
}

# follow_with prints the password file of a replica's connection to the primary.
follow_with() { printf '%s/.pgpass' "$SOCKETS"; }

# dumper is the role of dumps. It reads everything over the network and is no superuser; superusers use the socket only.
# shellcheck disable=SC2034 # run.sh and dump.sh use it
dumper=database_dump

# new_cluster creates a data directory in $1. Its superuser has no password and connects over the socket only.
new_cluster() {
  local include=''
  if [ -n "${CONFIG:-}" ]; then
    include="include_dir = '$CONFIG'"
  fi
  initdb --pgdata="$1" --username=postgres --encoding=UTF8 --locale=C.UTF-8 --auth-local=trust --auth-host=scram-sha-256 \
    --data-checksums >/dev/null || return
  cat >>"$1/postgresql.conf" <<-CONF
	# What a replica has not read for that long it can only get by being copied again.
	wal_keep_size = 512MB
	$include
	CONF
}

# single executes statements, one per line, in single-user mode, on the data in $1. No server process can outlive the script,
# no client is connected, and crash recovery happens here, once. No log has the passwords.
single() {
  attend postgres --single -D "$1" -c exit_on_error=on -c password_encryption=scram-sha-256 \
    -c synchronous_commit=local -c log_statement=none -c log_min_duration_statement=-1 -c log_min_duration_sample=-1 \
    -c log_min_error_statement=panic -c pgaudit.log=none -c pg_stat_statements.track_utility=off "${@:2}" postgres >"$SOCKETS/single"
}

# run executes SQL and stops at the first error.
run() { psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 "$@"; }

# leave_room sets room to the options that a replica with the data in $1 needs: its limits must not be below those of the
# primary, which the control file has. With lower ones it does not start, and the primary is restarted after it. Other
# arguments are the server's options. Invalid options and settings are reported by the server itself.
leave_room() {
  local control name has wants
  control=$(LC_ALL=C pg_controldata "$1") || return 0
  for name in max_connections max_worker_processes max_wal_senders max_prepared_transactions max_locks_per_transaction; do
    has=$(sed -n "s/.*$(replace "$name" transaction xact) setting: *//p" <<<"$control")
    wants=$(postgres -C "$name" -D "$1" "${@:2}") || return 0
    if [ "${has:-0}" -gt "$wants" ]; then
      say "$name is $has, not $wants, until this member is restarted after the primary has less"
      room+=(-c "$name=$has")
    fi
  done
}

# start_private starts a server for the data in $1 that only this script reaches, over a socket in $2. Other arguments are
# passed to the server. It is stopped with this shell.
start_private() {
  # shellcheck disable=SC2034 # load.sh uses it
  private=(--host="$2" --port=5432 --no-password)
  # These override settings of roles and databases that would prevent a restore.
  export PGOPTIONS="-c default_transaction_read_only=off -c statement_timeout=0 -c lock_timeout=0"
  mkdir -p "$2"
  postgres -D "$1" -c listen_addresses= -c "unix_socket_directories=$2" -c port=5432 -c ssl=off -c fsync=off \
    -c synchronous_standby_names= -c max_wal_size=256MB -c log_statement=none -c log_min_duration_statement=-1 \
    -c log_min_error_statement=panic "${@:3}" >&2 &
  server=$!
  trap stop_private EXIT
  until pg_isready --quiet --host="$2" --port=5432 --username=postgres; do
    kill -0 "$server" 2>/dev/null || return 1
    sleep 0.2
  done
}

# stop_private shuts it down.
stop_private() {
  trap - EXIT
  kill -INT "$server"
  wait "$server"
}
