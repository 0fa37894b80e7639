#!/usr/bin/env bash
# Puts a dump into an empty database, all of it or nothing. It is told, beside what lib.sh says, by
#   HOST, PORT  the primary
#   BACKUPS     the directory of the dumps
#   NAME        the dump, without .dump
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

[ -s "$BACKUPS/$NAME.dump" ] || give_up "there is no dump $NAME in $BACKUPS"
if [ -e "$BACKUPS/$NAME.sha256" ]; then
  (cd "$BACKUPS" && sha256sum --check --quiet "$NAME.sha256") || give_up "the dump $NAME is not what it was when it was written"
fi
PGPASSWORD=$(<"$CREDENTIALS/password")
export PGPASSWORD
connection=(--host="$HOST" --port="$PORT" --username="$DATABASE_USER" --no-password --dbname="$DATABASE")
run() { psql "${connection[@]}" --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 "$@"; }
objects=$(run --command="SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%'") || give_up "the server does not answer"
mark="restored from $NAME"
if [ "$objects" != 0 ]; then
  comment=$(run --command="SELECT pg_catalog.shobj_description(oid, 'pg_database') FROM pg_catalog.pg_database
    WHERE datname = current_database()")
  [ "$comment" = "$mark" ] || give_up "database $DATABASE is not empty: nothing is put over it"
  say "it was restored before"
  exit 0
fi
# The mark comes first: with it, and because what follows is one transaction, whatever is there later is all of the dump.
printf 'COMMENT ON DATABASE %s IS %s;\n' "\"${DATABASE//\"/\"\"}\"" "'${mark//\'/\'\'}'" | run
pg_restore "${connection[@]}" --no-owner --no-privileges --exit-on-error --single-transaction "$BACKUPS/$NAME.dump" ||
  give_up "the dump $NAME cannot be restored; the database is as empty as it was"
