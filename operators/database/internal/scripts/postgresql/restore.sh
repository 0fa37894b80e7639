#!/usr/bin/env bash
# Restores a dump into an empty database, completely or not at all. Variables beside those of lib.sh:
#   HOST, PORT  the primary
#   BACKUPS     the directory of the dumps; see dumps.sh
#   NAME        the name of the dump; if empty, the newest
# The termination log has the result as one line of JSON.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
# shellcheck source-path=SCRIPTDIR source=dumps.sh
. "${BASH_SOURCE[0]%/*}/dumps.sh"

began=$(date +%s)
choose_dump
file=$(choose_file)
check_credentials password
export PGPASSFILE=$SOCKETS/.pgpass-restore
write_passfile password "$PGPASSFILE"
connection=(--host="$HOST" --port="$PORT" --username="$DATABASE_USER" --no-password --dbname="$(conninfo "$DATABASE")")
run() { psql "${connection[@]}" --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 "$@"; }

# transaction prints a plain dump as one transaction; a truncated one does not end with a commit.
transaction() {
  printf 'BEGIN;\n'
  case $file in
  *.gz) gzip -dc "$file" ;;
  *) cat "$file" ;;
  esac && printf 'COMMIT;\n'
}

load() {
  case $file in
  *.sql | *.sql.gz) transaction | run >/dev/null ;;
  *) pg_restore "${connection[@]}" --no-owner --no-privileges --exit-on-error --single-transaction "$file" ;;
  esac
}

objects=$(patiently run --command="SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%'") ||
  give_up "the server does not answer"
mark="restored from $NAME"
if [ "$objects" != 0 ]; then
  comment=$(run --command="SELECT pg_catalog.shobj_description(oid, 'pg_database') FROM pg_catalog.pg_database
    WHERE datname = current_database()")
  [ "$comment" = "$mark" ] || give_up "database $DATABASE is not empty: nothing is put over it"
  say "it was restored before"
else
  # The comment is written first. The rest is one transaction, so a database with this comment and objects has the whole
  # dump.
  run --command="COMMENT ON DATABASE $(identifier "$DATABASE") IS $(literal "$mark")"
  attend load || give_up "the dump $NAME cannot be restored; the database is as empty as it was"
fi
restored "$began"
