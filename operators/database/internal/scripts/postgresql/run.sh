#!/usr/bin/env bash
# Runs the server of a member. Its ordinal alone decides whether it is the primary: a promoted replica has another history,
# and is not started.
#
# Before the primary accepts connections, its roles get the passwords of CREDENTIALS. So a changed password, or data from
# elsewhere, need a restart only.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

# single executes statements, one per line, in single-user mode. No server process can outlive the script, no client is
# connected, and crash recovery happens here, once. No log has the passwords.
single() {
  # A killed server leaves a file with its process ID, 1, which is now that of this script. PostgreSQL would mistake the file
  # for that of a running server, unless the ID is known as that of its grandparent.
  PG_GRANDPARENT_PID=$$ attend postgres --single -D "$PGDATA" -c exit_on_error=on -c password_encryption=scram-sha-256 \
    -c synchronous_commit=local -c log_statement=none -c log_min_duration_statement=-1 -c log_min_error_statement=panic \
    -c pgaudit.log=none -c pg_stat_statements.track_utility=off postgres >"$SOCKETS/single"
}

# create prints the statement that creates the role $1 if it is missing.
create() {
  local block
  block="BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $(literal "$1")) THEN"
  block+=" CREATE ROLE $(identifier "$1"); END IF; END"
  printf 'DO %s' "$(literal "$block")"
}

make_roles() {
  check_credentials superuser-password password replication-password
  single <<-SQL || give_up "the passwords cannot be set before the server starts: the log of the container says why"
	$(create replication)
	$(create "$DATABASE_USER")
	ALTER ROLE replication LOGIN REPLICATION PASSWORD $(literal "$(credential replication-password)")
	ALTER ROLE $(identifier "$DATABASE_USER") LOGIN PASSWORD $(literal "$(credential password)")
	ALTER ROLE postgres LOGIN PASSWORD $(literal "$(credential superuser-password)")
	SELECT 'has the database' FROM pg_catalog.pg_database WHERE datname = $(literal "$DATABASE")
	SQL
  if [[ $(<"$SOCKETS/single") != *'has the database'* ]]; then
    single <<<"CREATE DATABASE $(identifier "$DATABASE") OWNER $(identifier "$DATABASE_USER")" ||
      give_up "the database cannot be created: the log of the container says why"
  fi
}

# leave_room sets room to the options that a replica needs: its limits must not be below those of the primary, which the
# control file has. With lower ones it does not start, and the primary is restarted after it. Other arguments are the
# server's options. Invalid options and settings are reported by the server itself.
leave_room() {
  local control name has wants
  control=$(LC_ALL=C pg_controldata "$PGDATA") || return 0
  for name in max_connections max_worker_processes max_wal_senders max_prepared_transactions max_locks_per_transaction; do
    has=$(sed -n "s/.*$(replace "$name" transaction xact) setting: *//p" <<<"$control")
    wants=$(postgres -C "$name" -D "$PGDATA" "$@") || return 0
    if [ "${has:-0}" -gt "$wants" ]; then
      say "$name is $has, not $wants, until this member is restarted after the primary has less"
      room+=(-c "$name=$has")
    fi
  done
}

lock_data "$PGDATA"
[ -s "$PGDATA/PG_VERSION" ] || give_up "there are no data in $PGDATA: the member was not initialized"
check_major
chmod go= "$PGDATA" # the server rejects the additional modes of a volume with fsGroup
rm -f "$SOCKETS"/.s.PGSQL.* # a stale socket of a killed container would mislead probe.sh
options=(-c "unix_socket_directories=$SOCKETS" -c "listen_addresses=${LISTEN:-*}" -c "port=$(port)")
room=()
if [ "$MEMBER" = 0 ]; then
  [ ! -e "$PGDATA/standby.signal" ] || give_up "the data of member 0 are those of a replica: copy them back from the primary"
  make_roles
else
  [ -e "$PGDATA/standby.signal" ] ||
    give_up "member $MEMBER was promoted and is no copy of the primary any more: save what only it has, then delete its" \
      "claim and pod"
  check_credentials replication-password
  write_passfile replication-password "$(follow_with)"
  primary="host=$PRIMARY_HOST port=$PRIMARY_PORT user=replication application_name=member_$MEMBER passfile=$(follow_with)"
  options+=(-c "primary_conninfo=$primary")
  leave_room "${options[@]}" "$@"
fi
exec postgres -D "$PGDATA" "${options[@]}" "$@" "${room[@]}"
