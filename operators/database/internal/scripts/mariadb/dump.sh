#!/usr/bin/env bash
# Writes a dump, verifies it, and only then renames it and deletes older ones. A directory with the name of a dump can be
# restored. Tables other than InnoDB are not consistent with each other. Variables beside those of lib.sh:
#   HOST, PORT   the server; a replica is sufficient
#   BACKUPS      the directory of the dumps; see dumps.sh
#   NAME         the name of the dump; names that differ only after the last hyphen are a series
#   KEEP         number of dumps of the series to keep, including this one; default 0: all
#   KEEP_FOR     seconds to keep older dumps of the series; default: no limit
#   COMPRESSION  0 to 9; default 6
#   DATABASES    the databases to dump, separated by blanks; default DATABASE
#   VERIFY       none; list, the default: read the dump to its end; restore: restore it into a private server and compare the
#                names of all objects; rows are not counted, because no other session has the snapshot of a dump
#   SCRATCH      directory for the data of the private server; default SOCKETS
# FORMAT is plain and GLOBALS is false, if they are set. The termination log has the result as one line of JSON.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
# shellcheck source-path=SCRIPTDIR source=dumps.sh
. "${BASH_SOURCE[0]%/*}/dumps.sh"
# shellcheck source-path=SCRIPTDIR source=databases.sh
. "${BASH_SOURCE[0]%/*}/databases.sh"

COMPRESSION=${COMPRESSION:-6}
if [ -n "${DATABASES:-}" ]; then
  read -r -a databases <<<"$DATABASES"
else
  databases=("$DATABASE")
fi

# name_of prints the name of the file of the database $1.
name_of() { if [ "$COMPRESSION" = 0 ]; then printf '%s.sql' "$(encode "$1")"; else printf '%s.sql.gz' "$(encode "$1")"; fi; }

# packed compresses its standard input.
packed() { if [ "$COMPRESSION" = 0 ]; then cat; else gzip "-$COMPRESSION"; fi; }

write_dump() {
  local has wants database
  { patiently answers && ask <<<'SELECT VERSION()' >"$1/.version"; } || give_up "the server does not answer; older dumps stay"
  has=$("$DUMP" --no-defaults --version | sed -E 's/.*(Distrib|from|Ver) ([0-9]+\.[0-9]+)\..*/\2/')
  wants=$(sed -E 's/^([0-9]+\.[0-9]+).*/\1/' "$1/.version")
  ! later "$wants" "$has" ||
    give_up "$DUMP is of version $has and cannot dump a server of version $wants: use the image of the server"
  for database in "${databases[@]}"; do
    "$DUMP" --defaults-file=<(credentials) --single-transaction --routines --triggers --events --hex-blob --no-tablespaces \
      --default-character-set=utf8mb4 --max-allowed-packet=1G --ignore-table="$database.$mark" "${dump_options[@]}" \
      -- "$database" | packed >"$1/$(name_of "$database")" ||
      give_up "$DUMP failed, $(free) bytes are free; older dumps stay"
    if [ "$VERIFY" = restore ]; then
      objects "$database" | ask >"$scratch/$(encode "$database")" || give_up "the server does not answer; older dumps stay"
    fi
  done
}

# read_back reads the file $1 to its end.
read_back() {
  local end
  end=$(text "$1" | sed -n '$p') && [[ $end == '-- Dump completed'* ]]
}

# verify_by_restoring restores all databases of the dump $1 into a private server, with the permissions of restore.sh.
verify_by_restoring() {
  local database log=$scratch/log user
  user="$(literal "$DATABASE_USER")@'%'"
  private=$scratch/sock
  { install "$scratch/data" && start_private "$scratch/data" --no-defaults --skip-log-bin --max-allowed-packet=1G; } \
    >"$log" 2>&1 || give_up "the server to restore into does not start: is there room in $scratch? $(sed -n '$p' "$log")"
  trap stop_private EXIT
  for database in "${databases[@]}"; do
    as_root "$private" <<<"DROP DATABASE IF EXISTS restored; CREATE DATABASE restored CHARACTER SET utf8mb4;
      CREATE USER IF NOT EXISTS $user; GRANT ALL ON restored.* TO $user" || exit 1
    text "$1/$(name_of "$database")" | "$CLIENT" --no-defaults "${local_options[@]}" --socket="$private" --user="$DATABASE_USER" \
      --binary-mode --default-character-set=utf8mb4 --max-allowed-packet=1G restored ||
      give_up "the dump of $database cannot be restored; older dumps stay"
    [ "$(objects restored | as_root "$private")" = "$(<"$scratch/$(encode "$database")")" ] ||
      give_up "the restored dump of $database has not all that the database has; older dumps stay"
  done
}

verify_dump() {
  local database
  if [ "$VERIFY" != none ]; then
    for database in "${databases[@]}"; do
      read_back "$1/$(name_of "$database")" || give_up "the dump of $database cannot be read back; older dumps stay"
    done
  fi
  if [ "$VERIFY" = restore ]; then
    verify_by_restoring "$1"
  fi
}

[ "${FORMAT:-plain}" = plain ] || give_up "FORMAT is $FORMAT, and can be plain"
[ "${GLOBALS:-false}" = false ] || give_up "GLOBALS is $GLOBALS, and can be false: the users are in no dump"
[[ $COMPRESSION =~ ^[0-9]$ ]] || give_up "COMPRESSION is $COMPRESSION, and can be 0 to 9"
check_credentials password
make_dump
