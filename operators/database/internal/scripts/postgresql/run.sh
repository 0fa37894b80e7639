#!/usr/bin/env bash
# Runs the server of a member. Its ordinal alone decides whether it is the primary: a promoted replica has another history,
# and is not started.
#
# Before the primary accepts connections, its roles get the passwords of CREDENTIALS. So a changed password, or data from
# elsewhere, need a restart only. Variables beside those of lib.sh:
#   CLOSED   true: nothing but the role of dumps connects over the network, and nothing writes
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

# create prints the statement that creates the role $1 if it is missing.
create() {
  local block
  block="BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $(literal "$1")) THEN"
  block+=" CREATE ROLE $(identifier "$1"); END IF; END"
  printf 'DO %s' "$(literal "$block")"
}

# connects prints the statement that lets the role of dumps connect to all databases.
connects() {
  local block
  block="DECLARE d name; BEGIN FOR d IN SELECT datname FROM pg_catalog.pg_database WHERE datallowconn AND NOT"
  block+=" pg_catalog.has_database_privilege('$dumper', oid, 'CONNECT') LOOP EXECUTE"
  block+=" pg_catalog.format('GRANT CONNECT ON DATABASE %I TO $dumper', d); END LOOP; END"
  printf 'DO %s' "$(literal "$block")"
}

# make_dumper prints the statements that create the role of dumps. It reads everything, also the hashes of passwords, and
# writes nothing but large objects. Servers before version 14 have no such role, and no dump of the whole server.
make_dumper() {
  [ "$(major postgres)" -ge 14 ] || return 0
  cat <<-SQL
	$(create "$dumper")
	ALTER ROLE $dumper LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE BYPASSRLS PASSWORD $(literal "$(credential dump-password)")
	ALTER ROLE $dumper SET lo_compat_privileges = on
	GRANT pg_read_all_data, pg_monitor TO $dumper
	GRANT SELECT ON pg_catalog.pg_authid TO $dumper
	$(connects)
	SQL
}

make_roles() {
  check_credentials password dump-password replication-password
  single "$PGDATA" <<-SQL || give_up "the passwords cannot be set before the start: the log of the container says why"
	$(create replication)
	$(create "$DATABASE_USER")
	ALTER ROLE replication LOGIN REPLICATION PASSWORD $(literal "$(credential replication-password)")
	GRANT pg_monitor TO replication
	ALTER ROLE $(identifier "$DATABASE_USER") LOGIN PASSWORD $(literal "$(credential password)")
	ALTER ROLE postgres LOGIN PASSWORD NULL
	$(make_dumper)
	SELECT 'has the database' FROM pg_catalog.pg_database WHERE datname = $(literal "$DATABASE")
	SQL
  if [[ $(<"$SOCKETS/single") != *'has the database'* ]]; then
    single "$PGDATA" <<<"CREATE DATABASE $(identifier "$DATABASE") OWNER $(identifier "$DATABASE_USER")" ||
      give_up "the database cannot be created: the log of the container says why"
  fi
}

# write_hba writes the rules for connections. Sockets are in a directory that only this container has, and the superuser has
# no other way. While the last dump is made, nothing but the dump connects.
write_hba() {
  {
    printf 'local all all trust\nlocal replication all trust\nhost all postgres all reject\n'
    if [ "${CLOSED:-}" = true ]; then
      printf 'host all %s all scram-sha-256\n' "$dumper"
    else
      printf 'host replication replication all scram-sha-256\nhost all all all scram-sha-256\n'
    fi
  } >"$SOCKETS/pg_hba.conf"
}

# number prints a position in the log as a number.
number() { printf '%d' "$(((16#${1%/*} << 32) + 16#${1#*/}))"; }

# check_history rejects a replica with more than the primary had when its current history began. The file of this history was
# received before. The server would not start, and only its log would say why.
check_history() {
  local control file tli at fork
  control=$(LC_ALL=C pg_controldata "$PGDATA") || return 0
  tli=$(sed -n "s/^Min recovery ending loc's timeline: *//p" <<<"$control")
  at=$(sed -n 's/^Minimum recovery ending location: *//p' <<<"$control")
  for file in "$PGDATA"/pg_wal/*.history; do :; done # the last one
  [ -e "$file" ] && [ "${tli:-0}" -gt 0 ] || return 0
  fork=$(sed -n -E "s/^$tli\t([0-9A-F]+\/[0-9A-F]+)\t.*/\1/p" "$file")
  if [ -n "$fork" ] && [ "$(number "$at")" -gt "$(number "$fork")" ]; then
    give_up "member $MEMBER has transactions that the primary does not have: save what only it has, then delete its claim" \
      "and pod"
  fi
}

lock_data "$PGDATA"
[ -s "$PGDATA/PG_VERSION" ] || give_up "there are no data in $PGDATA: the member was not initialized"
check_major
chmod go= "$PGDATA" # the server rejects the additional modes of a volume with fsGroup
# Stale files of a killed container: the process ID may be that of another process now, and a socket would mislead probe.sh.
rm -f "$PGDATA/postmaster.pid" "$SOCKETS"/.s.PGSQL.*
options=(-c "unix_socket_directories=$SOCKETS" -c "listen_addresses=${LISTEN:-*}" -c "port=$(port)"
  -c "hba_file=$SOCKETS/pg_hba.conf")
if [ "${CLOSED:-}" = true ]; then
  options+=(-c default_transaction_read_only=on -c max_logical_replication_workers=0) # subscriptions write
fi
write_hba
room=()
if [ "$MEMBER" = 0 ]; then
  [ ! -e "$PGDATA/standby.signal" ] || reject_replica
  make_roles
else
  [ -e "$PGDATA/standby.signal" ] ||
    give_up "member $MEMBER was promoted and is no copy of the primary any more: save what only it has, then delete its" \
      "claim and pod"
  check_history
  check_credentials replication-password
  write_passfile replication-password "$(follow_with)"
  options+=(-c "primary_conninfo=$(connection "$PRIMARY_HOST")")
  leave_room "$PGDATA" "${options[@]}" "$@"
fi
serve postgres -D "$PGDATA" "${options[@]}" "$@" "${room[@]}"
