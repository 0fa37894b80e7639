#!/usr/bin/env bash
# Writes a dump, verifies it, and only then renames it and deletes older ones. A directory with the name of a dump can be
# restored. Variables beside those of lib.sh:
#   HOST, PORT   the server; a replica is sufficient
#   BACKUPS      the directory of the dumps; see dumps.sh
#   NAME         the name of the dump; names that differ only after the last hyphen are a series
#   KEEP         number of dumps of the series to keep, including this one; default 0: all
#   KEEP_FOR     seconds to keep older dumps of the series; default: no limit
#   FORMAT       custom, the default, plain or directory
#   COMPRESSION  0 to 9; default 6
#   DATABASES    the databases to dump, separated by blanks; default DATABASE
#   GLOBALS      true: write the roles, without passwords, to %globals.sql of the dump; no restore applies it
#   VERIFY       none; list, the default: read the dump to its end; restore: restore it into a private server and compare the
#                number of rows in all tables with the snapshot of the dump
#   SCRATCH      directory for the data of the private server; default SOCKETS
# The termination log has the result as one line of JSON.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
# shellcheck source-path=SCRIPTDIR source=dumps.sh
. "${BASH_SOURCE[0]%/*}/dumps.sh"

FORMAT=${FORMAT:-custom} COMPRESSION=${COMPRESSION:-6}
connection=(--host="$HOST" --port="$PORT" --username="$DATABASE_USER" --no-password)
if [ -n "${DATABASES:-}" ]; then
  read -r -a databases <<<"$DATABASES"
else
  databases=("$DATABASE")
fi

# name_of prints the name of the file, or directory, of the database $1.
name_of() {
  case $FORMAT in
  custom) printf '%s.dump' "$(encode "$1")" ;;
  directory) printf '%s.dir' "$(encode "$1")" ;;
  plain) if [ "$COMPRESSION" = 0 ]; then printf '%s.sql' "$(encode "$1")"; else printf '%s.sql.gz' "$(encode "$1")"; fi ;;
  esac
}

run() { psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 "$@"; }

# counting prints the statements that count the rows of each dumped table.
counting() {
  cat <<-'SQL'
	SELECT pg_catalog.format('SELECT %L, count(*) FROM ONLY %I.%I', n.nspname || '.' || c.relname, n.nspname, c.relname)
	  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	  WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
	    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
	  ORDER BY n.nspname, c.relname \gexec
	SQL
}

# dump_database writes the database $1 to the file $2, of the snapshot $3 if it is set.
dump_database() {
  local options=(--format="$FORMAT" --compress="$COMPRESSION" --file="$2")
  if [ -n "${3:-}" ]; then
    options+=(--snapshot="$3")
  fi
  if [ "$FORMAT" = plain ]; then
    options+=(--no-owner --no-privileges) # restores of other formats omit them
  fi
  pg_dump "${connection[@]}" "${options[@]}" --dbname="$(conninfo "$1")" ||
    give_up "pg_dump failed, $(free) bytes are free; older dumps stay"
}

# dump_and_count is dump_database, and counts the rows of the same snapshot into the file $3.
dump_and_count() {
  local in out answer snapshot
  coproc SESSION { run "${connection[@]}" --dbname="$(conninfo "$1")" 2>&1; }
  in=${SESSION[1]} out=${SESSION[0]}
  # The session is idle during the dump, without a time limit.
  printf '%s\n' "DO 'BEGIN PERFORM pg_catalog.set_config(name, ''0'', false) FROM pg_catalog.pg_settings WHERE name IN
    (''idle_in_transaction_session_timeout'', ''transaction_timeout'', ''statement_timeout''); END';" 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;' 'SET LOCAL row_security = off;' \
    'SELECT pg_catalog.pg_export_snapshot();' >&"$in"
  read -r snapshot <&"$out" || give_up "the server does not answer; older dumps stay"
  [[ $snapshot =~ ^[0-9A-F-]+$ ]] || give_up "there is no snapshot to dump: $snapshot; older dumps stay"
  dump_database "$1" "$2" "$snapshot"
  {
    printf '\\o %s\n' "$3"
    counting
    printf "\\\\o\nSELECT 'counted';\n"
  } >&"$in"
  read -r answer <&"$out" || true
  [ "$answer" = counted ] || give_up "the rows cannot be counted: $answer; older dumps stay"
  exec {in}>&- # ends the session
  wait
}

write_dump() {
  local has wants database
  export PGPASSFILE=$SOCKETS/.pgpass-dump
  write_passfile password "$PGPASSFILE" || exit 1
  patiently run "${connection[@]}" --dbname="$(conninfo "${databases[0]}")" --command='SHOW server_version' \
    >"$1/.version" ||
    give_up "the server does not answer; older dumps stay"
  has=$(major pg_dump)
  wants=$(sed -E 's/^([0-9]+).*/\1/' "$1/.version")
  [ "$has" -ge "$wants" ] ||
    give_up "pg_dump is of version $has and cannot dump a server of version $wants: use the image of the server"
  for database in "${databases[@]}"; do
    if [ "$VERIFY" = restore ]; then
      dump_and_count "$database" "$1/$(name_of "$database")" "$scratch/$(encode "$database")"
    else
      dump_database "$database" "$1/$(name_of "$database")"
    fi
  done
  if [ "${GLOBALS:-false}" = true ]; then
    pg_dumpall "${connection[@]}" --globals-only --no-role-passwords --database="${databases[0]}" --file="$1/%globals.sql" ||
      give_up "pg_dumpall failed, $(free) bytes are free; older dumps stay"
    [[ $(tail -n 5 "$1/%globals.sql") == *'-- PostgreSQL database cluster dump complete'* ]] ||
      give_up "the roles were not dumped to their end; older dumps stay"
  fi
}

# text prints a plain dump.
text() {
  case $1 in
  *.gz) gzip -dc "$1" ;;
  *) cat "$1" ;;
  esac
}

# read_back reads the file $1 to its end, because the table of contents is at the beginning.
read_back() {
  local end
  if [ "$FORMAT" = plain ]; then
    end=$(text "$1" | tail -n 5) && [[ $end == *'-- PostgreSQL database dump complete'* ]]
  else
    pg_restore --file=/dev/null "$1"
  fi
}

# start_scratch starts a private server that ends with this shell.
start_scratch() {
  unset PGREQUIREAUTH # of the source; the private server trusts its socket
  initdb --pgdata="$scratch/data" --username=postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync >/dev/null ||
    give_up "no server can be made to restore into: is there room in $scratch?"
  postgres -D "$scratch/data" -c listen_addresses= -c "unix_socket_directories=$scratch" -c port=5432 -c fsync=off \
    -c log_min_messages=fatal -c max_wal_size=256MB &
  server=$!
  trap 'kill -INT "$server" && wait "$server"' EXIT
  until pg_isready --quiet --host="$scratch" --port=5432 --username=postgres; do
    kill -0 "$server" 2>/dev/null || give_up "the server to restore into does not start"
    sleep 0.2
  done
}

# verify_by_restoring restores all databases of the dump $1 into the private server and compares the counts. The role owns
# the database and is no superuser, as in restore.sh.
verify_by_restoring() {
  local database file on=(--host="$scratch" --port=5432 --username=postgres --no-password)
  local by=("${on[@]}" --username=restorer --dbname=restored)
  start_scratch
  run "${on[@]}" --dbname=postgres --command="CREATE ROLE restorer LOGIN" || exit 1
  for database in "${databases[@]}"; do
    file=$1/$(name_of "$database")
    run "${on[@]}" --dbname=postgres --command="CREATE DATABASE restored OWNER restorer" || exit 1
    if [ "$FORMAT" = plain ]; then
      text "$file" | run "${by[@]}" --single-transaction >/dev/null
    else
      pg_restore "${by[@]}" --no-owner --no-privileges --exit-on-error --single-transaction "$file"
    fi || give_up "the dump of $database cannot be restored; older dumps stay"
    [ "$(counting | run "${on[@]}" --dbname=restored)" = "$(<"$scratch/$(encode "$database")")" ] ||
      give_up "the restored dump of $database has other numbers of rows; older dumps stay"
    run "${on[@]}" --dbname=postgres --command="DROP DATABASE restored" || exit 1
  done
}

verify_dump() {
  local database
  case $VERIFY in
  list)
    for database in "${databases[@]}"; do
      read_back "$1/$(name_of "$database")" || give_up "the dump of $database cannot be read back; older dumps stay"
    done
    ;;
  restore) verify_by_restoring "$1" ;;
  esac
}

case $FORMAT in custom | plain | directory) ;; *) give_up "FORMAT is $FORMAT, and can be custom, plain or directory" ;; esac
[[ $COMPRESSION =~ ^[0-9]$ ]] || give_up "COMPRESSION is $COMPRESSION, and can be 0 to 9"
check_credentials password
make_dump
