#!/usr/bin/env bash
# Makes the data directory of a member if there is none: the first member's by initdb, the others' as a copy of it. It may be
# ended at any time and begin again: what is not complete has another name.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

partial=$PGDATA.partial

# literal prints a credential as a string of SQL; single-user mode takes one statement per line.
literal() {
  local text
  text=$(<"$CREDENTIALS/$1")
  case $text in
  '') give_up "the credential $1 is empty" ;;
  *$'\n'*) give_up "the credential $1 has more than one line" ;;
  esac
  printf "'%s'" "${text//\'/\'\'}"
}

# identifier prints a name as SQL has it.
identifier() { printf '"%s"' "${1//\"/\"\"}"; }

make_primary() {
  initdb --pgdata="$partial" --username=postgres --pwfile="$CREDENTIALS/superuser-password" --encoding=UTF8 --locale=C.UTF-8 \
    --auth-local=trust --auth-host=scram-sha-256 --data-checksums >/dev/null
  cat >"$partial/pg_hba.conf" <<-'HBA'
	# Sockets are in a directory that only this container has.
	local all         all                 trust
	host  replication replication all     scram-sha-256
	host  all         all         all     scram-sha-256
	HBA
  printf "include_dir = '%s'\n" "$CONFIG" >>"$partial/postgresql.conf"
  # In single-user mode there is no server that could outlive this script.
  postgres --single -D "$partial" -c exit_on_error=on postgres >/dev/null <<-SQL
	CREATE ROLE replication LOGIN REPLICATION PASSWORD $(literal replication-password)
	CREATE ROLE $(identifier "$DATABASE_USER") LOGIN PASSWORD $(literal password)
	CREATE DATABASE $(identifier "$DATABASE") OWNER $(identifier "$DATABASE_USER")
	SQL
}

make_replica() {
  until PGPASSWORD=$(<"$CREDENTIALS/replication-password") pg_basebackup --host="$PRIMARY_HOST" --port="$PRIMARY_PORT" \
    --username=replication --pgdata="$partial" --wal-method=stream --checkpoint=fast --no-password; do
    say "the primary cannot be copied yet; trying again in 5 s"
    rm -rf "$partial"
    sleep 5
  done
  touch "$partial/standby.signal"
}

if [ -e "$PGDATA" ]; then
  [ -s "$PGDATA/PG_VERSION" ] || give_up "$PGDATA is there and holds no data of PostgreSQL: nothing is put over it"
  check_major
  exit 0
fi
rm -rf "$partial"
if [ "$MEMBER" = 0 ]; then
  make_primary
else
  make_replica
fi
put_in_place "$partial"
