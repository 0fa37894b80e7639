#!/usr/bin/env bash
# Restores a dump into an empty database, completely or not at all. Variables beside those of lib.sh:
#   HOST, PORT  the primary
#   BACKUPS     the directory of the dumps; see dumps.sh
#   NAME        the name of the dump; if empty, the newest
# DDL statements cannot be rolled back. So a table that is in no dump records in its comment that the database was empty and
# is being restored. A later attempt empties such a database and starts again. The termination log has the result as one line
# of JSON.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
# shellcheck source-path=SCRIPTDIR source=dumps.sh
. "${BASH_SOURCE[0]%/*}/dumps.sh"
# shellcheck source-path=SCRIPTDIR source=databases.sh
. "${BASH_SOURCE[0]%/*}/databases.sh"

# here runs statements in the database.
here() { { printf 'USE %s;\n' "$(identifier "$DATABASE")" && cat; } | ask; }

# dropping prints the statements that drop the listed objects; triggers are dropped with their tables.
dropping() {
  local kind name
  printf 'SET SESSION foreign_key_checks = 0;\n'
  while IFS=$'\t' read -r kind name; do
    if [ "$kind" != TRIGGER ]; then
      printf 'DROP %s IF EXISTS %s;\n' "$kind" "$(identifier "$name")"
    fi
  done
}

empty() {
  local statements
  statements=$(objects "$DATABASE" | ask | dropping) || return
  here <<<"$statements"
}

load() {
  text "$file" | "$CLIENT" --defaults-file=<(credentials) --binary-mode --default-character-set=utf8mb4 \
    --max-allowed-packet=1G --database="$DATABASE"
}

began=$(date +%s)
choose_dump
file=$(choose_file)
check_credentials password
patiently answers || give_up "the server does not answer"
found=$(objects "$DATABASE" | ask) || give_up "the server does not answer"
state=$(ask <<<"SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_NAME = '$mark'
  AND TABLE_SCHEMA = $(hex "$DATABASE")")
if [ -n "$found" ] && [ "$state" = "restored $NAME" ]; then
  say "it was restored before"
  restored "$began"
  exit 0
fi
if [ -n "$found" ]; then
  [[ $state == 'restoring '* ]] || give_up "database $DATABASE is not empty: nothing is put over it"
  say "an earlier attempt was ended in the middle; it begins again"
  empty || give_up "what an earlier attempt left cannot be dropped"
fi
here <<<"CREATE TABLE IF NOT EXISTS $mark (nothing INT); ALTER TABLE $mark COMMENT = 'restoring $NAME'"
if attend load; then
  here <<<"ALTER TABLE $mark COMMENT = 'restored $NAME'"
else
  { empty && here <<<"DROP TABLE $mark"; } ||
    give_up "the dump $NAME cannot be restored, and what it left cannot be dropped: try again"
  give_up "the dump $NAME cannot be restored; the database is as empty as it was"
fi
restored "$began"
