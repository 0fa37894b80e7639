#!/usr/bin/env bash
# Writes a dump, reads it back, and only then gives it its name and lets older ones go: what has the name of a dump can be
# restored. Tables that are not InnoDB's are as they were while it was written, and not all as at one moment. It is told,
# beside what lib.sh says, by
#   HOST, PORT   the server; a replica will do
#   BACKUPS      the directory of the dumps, which dumps.sh describes
#   NAME         the name of this one; those that differ after the last hyphen only are a series
#   KEEP         how many dumps of the series stay, this one among them; 0, the default, is all
#   KEEP_FOR     for how many seconds those of the series stay, if they are not the newest; for ever by default
#   COMPRESSION  0 to 9; 6 by default
#   DATABASES    the databases to dump, with blanks between them; DATABASE by default
#   VERIFY       none; list, the default: the dump is read to its end; restore: it is restored into a server of its own, and
#                what there is by name is compared; rows are not counted, because no other session sees what a dump saw
#   SCRATCH      where that server has its data; SOCKETS by default
# FORMAT, if it is set, is plain, and GLOBALS false. What came of it is told as one line of JSON in the termination log.
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

# packed compresses what it reads.
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

# verify_by_restoring restores all databases of the dump $1 into a server of its own, with no more rights than restore.sh has.
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
