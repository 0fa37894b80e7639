#!/usr/bin/env bash
# Creates the data directory of the primary from a dump, completely or not at all, before the first start of the server. It
# may be interrupted at any time. Variables beside those of lib.sh:
#   BACKUPS     the directory of the dumps; see dumps.sh
#   NAME        the name of the dump; if empty, the newest
# The dump of a whole server is restored by root, with all databases, users, roles and privileges. That of one database
# becomes DATABASE and is restored with the permissions of DATABASE_USER: such dumps may come from other servers. The
# termination log has the result as one line of JSON. run.sh sets the passwords of CREDENTIALS.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
# shellcheck source-path=SCRIPTDIR source=dumps.sh
. "${BASH_SOURCE[0]%/*}/dumps.sh"
# shellcheck source-path=SCRIPTDIR source=databases.sh
. "${BASH_SOURCE[0]%/*}/databases.sh"

# has succeeds if the statement returns a row.
has() { [ -n "$(as_root "$private" <<<"$1")" ]; }

# check_version rejects the dump of a later series: the users are in tables of the server.
check_version() {
  local of
  of=$(sed -n -E 's/.*"serverVersion":"([0-9]+\.[0-9]+).*/\1/p' "$BACKUPS/$NAME/about.json")
  ! later "$of" "$(series)" ||
    give_up "the dump $NAME is of $PRODUCT $of and the image is $(series): use an image of version $of or later"
}

load() {
  local dump=$BACKUPS/$NAME file
  if is_server; then
    check_version
  else
    choose_file
  fi
  start_empty "$1" || give_up "the server to restore into does not start: the log of the container says why"
  if is_server; then
    load_server "$dump" "$1" || give_up "the dump $NAME cannot be restored: the log of the container says why"
    has "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = $(hex "$DATABASE")" ||
      give_up "the dump $NAME has no database $DATABASE: set spec.databaseName of the Database to one that it has"
    has "SELECT 1 FROM mysql.user WHERE Host = '%' AND User = $(hex "$DATABASE_USER")" ||
      give_up "the dump $NAME has no user $DATABASE_USER: set spec.username of the Database to one that it has"
  else
    load_file "$file" "$DATABASE" || give_up "the dump $NAME cannot be restored: the log of the container says why"
  fi
  stop_private
  describe "$1"
}

restore_into "$DATADIR"
