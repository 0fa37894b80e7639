#!/usr/bin/env bash
# Creates the data directory of the primary from a dump, completely or not at all, before the first start of the server. It
# may be interrupted at any time. Variables beside those of lib.sh:
#   BACKUPS     the directory of the dumps; see dumps.sh
#   NAME        the name of the dump; if empty, the newest
# The dump of a whole server is restored by the superuser, with all databases, roles, owners and privileges. That of one
# database becomes DATABASE and is restored by its owner, who is no superuser: such dumps may come from other servers. The
# termination log has the result as one line of JSON.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
# shellcheck source-path=SCRIPTDIR source=dumps.sh
. "${BASH_SOURCE[0]%/*}/dumps.sh"
# shellcheck source-path=SCRIPTDIR source=load.sh
. "${BASH_SOURCE[0]%/*}/load.sh"

# has succeeds if the statement returns a row.
has() { [ -n "$(run "${private[@]}" --username=postgres --dbname=template1 --command="$1")" ]; }

load() {
  local dump=$BACKUPS/$NAME file
  { new_cluster "$1" && start_private "$1" "$SOCKETS/private"; } ||
    give_up "the server to restore into does not start: the log of the container says why"
  if is_server; then
    load_server "$dump" || give_up "the dump $NAME cannot be restored: the log of the container says why"
    has "SELECT 1 FROM pg_catalog.pg_database WHERE datname = $(literal "$DATABASE")" ||
      give_up "the dump $NAME has no database $DATABASE: set spec.databaseName of the Database to one that it has"
    has "SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = $(literal "$DATABASE_USER")" ||
      give_up "the dump $NAME has no role $DATABASE_USER: set spec.username of the Database to one that it has"
  else
    choose_file
    run "${private[@]}" --username=postgres --dbname=postgres --command="CREATE ROLE $(identifier "$DATABASE_USER") LOGIN" \
      --command="CREATE DATABASE $(identifier "$DATABASE") OWNER $(identifier "$DATABASE_USER")" || return
    load_file "$file" "$DATABASE" "$DATABASE_USER" ||
      give_up "the dump $NAME cannot be restored: the log of the container says why"
  fi
  stop_private
}

restore_into "$PGDATA"
