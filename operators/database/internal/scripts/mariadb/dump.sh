#!/usr/bin/env bash
# Writes a dump, verifies it, and only then renames it and deletes older ones. A directory with the name of a dump can be
# restored. Tables other than InnoDB are not consistent with each other. Variables beside those of lib.sh:
#   HOST, PORT   the server; a replica is sufficient, but for SCOPE=server not if there are events
#   BACKUPS      the directory of the dumps; see dumps.sh
#   NAME         the name of the dump; names that differ only after the last hyphen are a series
#   KEEP         number of dumps of the series to keep, including this one; default 0: all
#   KEEP_FOR     seconds to keep older dumps of the series; default: no limit
#   COMPRESSION  0 to 9; default 6
#   SCOPE        server: all databases but those of the server itself, in %server.sql.gz, and the users and roles with their
#                hashes of passwords, privileges and memberships, plugins, functions and foreign servers in %globals.sql;
#                database, the default: DATABASES, as DATABASE_USER
#   DATABASES    the databases to dump, separated by blanks; default DATABASE
#   VERIFY       none; list, the default: read the dump to its end; restore: restore it into a private server and compare the
#                names of all objects, and the users and privileges of a whole server; rows are not counted, because no other
#                session has the snapshot of a dump
#   SCRATCH      directory for the data of the private server; default SOCKETS
# All databases of a whole server have the same snapshot. Views are restored last, so that they may use other databases.
# FORMAT is plain and GLOBALS is false, if they are set. The termination log has the result as one line of JSON.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
# shellcheck source-path=SCRIPTDIR source=dumps.sh
. "${BASH_SOURCE[0]%/*}/dumps.sh"
# shellcheck source-path=SCRIPTDIR source=databases.sh
. "${BASH_SOURCE[0]%/*}/databases.sh"

COMPRESSION=${COMPRESSION:-6} SCOPE=${SCOPE:-database}
user=$DATABASE_USER credential=password databases=("$DATABASE")
if [ "$SCOPE" = server ]; then
  user=$dumper credential=dump-password databases=()
elif [ -n "${DATABASES:-}" ]; then
  read -r -a databases <<<"$DATABASES"
fi

credentials() { client_file "$user" "$credential" "$HOST" "$PORT"; }

# ask runs the statements on its standard input on the server.
ask() { "$CLIENT" --defaults-file=<(credentials) --batch --raw --skip-column-names --default-character-set=utf8mb4; }

# answers succeeds if the server answers, and writes its version to $1. Its error is in $1.error.
answers() { ask <<<'SELECT VERSION()' >"$1" 2>"$1.error"; }

# connect waits for the server.
connect() {
  local why
  if ! patiently answers "$1"; then
    why=$(tr '\n' ' ' <"$1.error")
    say "$why"
    case $why in
    *'ERROR 1045 '* | *'ERROR 4151 '*)
      give_up "the server rejects the password of $user, or has locked the user: it takes passwords over when it starts;" \
        "older dumps stay"
      ;;
    *) give_up "the server does not answer: $why; older dumps stay" ;;
    esac
  fi
  rm -f "$1.error"
}

# remote and private_dump run the program for dumps on the server, and on the private one.
remote() { "$DUMP" --defaults-file=<(credentials) "$@"; }
private_dump() { "$DUMP" --no-defaults "${local_options[@]}" --socket="$private" --user=root "$@"; }

# failed gives up with the error of a program in the file $1.
failed() {
  cat "$1" >&2
  give_up "$DUMP failed, $(free) bytes are free; older dumps stay: $(sed -n '$p' "$1")"
}

# name_of prints the name of the file of the database $1.
name_of() { if [ "$COMPRESSION" = 0 ]; then printf '%s.sql' "$(encode "$1")"; else printf '%s.sql.gz' "$(encode "$1")"; fi; }

# packed compresses its standard input.
packed() { if [ "$COMPRESSION" = 0 ]; then cat; else gzip "-$COMPRESSION"; fi; }

# check_history prints the option for tables with a history of their rows, which a dump would lack without it.
check_history() {
  local found
  found=$(ask <<<"SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM information_schema.TABLES
    WHERE TABLE_TYPE = 'SYSTEM VERSIONED' AND TABLE_SCHEMA NOT IN $system LIMIT 1") || return
  if [ -n "$found" ]; then
    [[ $("$DUMP" --no-defaults --help) == *dump-history* ]] ||
      give_up "table $found is system-versioned, and this $DUMP cannot dump its history: use version 10.11 or later," \
        "or drop the versioning; older dumps stay"
    printf -- '--dump-history'
  fi
}

# check_events fails if an event has lost its state: a replica has all of them disabled.
check_events() {
  local found
  found=$(ask <<<"SELECT CONCAT(EVENT_SCHEMA, '.', EVENT_NAME) FROM information_schema.EVENTS
    WHERE STATUS = 'SLAVESIDE_DISABLED' LIMIT 1") || give_up "the events cannot be listed; older dumps stay"
  [ -z "$found" ] ||
    give_up "event $found is disabled as on a replica, so that a dump would not tell whether it is enabled: dump the" \
      "primary, or enable or disable it there with ALTER EVENT; older dumps stay"
}

# dump_server writes all databases and the users into the directory $1.
dump_server() {
  local names history
  names=$(ask <<<"SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN $system ORDER BY 1") ||
    give_up "the databases cannot be listed; older dumps stay"
  mapfile -t databases <<<"$names"
  check_events
  history=$(check_history) || exit 1
  if [ "$VERIFY" = restore ]; then
    listing | ask >"$scratch/listing" || give_up "the server does not answer; older dumps stay"
  fi
  dump_globals remote >"$1/%globals.sql" 2>"$1/.error" || failed "$1/.error"
  dump_databases "$1/$(server_file)" ${history:+"$history"} --databases -- "${databases[@]}"
}

# server_file prints the name of the file of all databases.
server_file() { if [ "$COMPRESSION" = 0 ]; then printf '%%server.sql'; else printf '%%server.sql.gz'; fi; }

# dump_databases writes the file $1; other arguments select the databases.
dump_databases() {
  local errors=${1%/*}/.error
  remote --single-transaction --routines --triggers --events --hex-blob --no-tablespaces --default-character-set=utf8mb4 \
    --max-allowed-packet=1G "${dump_options[@]}" "${@:2}" 2>"$errors" | packed >"$1" ||
    failed "$errors"
  rm -f "$errors"
}

write_dump() {
  local has wants database
  connect "$1/.version"
  has=$("$DUMP" --no-defaults --version | sed -E 's/.*(Distrib|from|Ver) ([0-9]+\.[0-9]+)\..*/\2/')
  wants=$(sed -E 's/^([0-9]+\.[0-9]+).*/\1/' "$1/.version")
  ! later "$wants" "$has" ||
    give_up "$DUMP is of version $has and cannot dump a server of version $wants: use the image of the server"
  if [ "$SCOPE" = server ]; then
    dump_server "$1"
    return
  fi
  for database in "${databases[@]}"; do
    dump_databases "$1/$(name_of "$database")" -- "$database"
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

# differences prints the lines in which the files $1 and $2 differ, and fails if there are any.
differences() { LC_ALL=C diff <(LC_ALL=C sort "$1") <(LC_ALL=C sort "$2"); }

# verify_server restores the dump of a whole server in $1 and compares. The log does not have differences of the users, whose
# hashes of passwords are in them.
verify_server() {
  load_server "$1" "$scratch/data" || give_up "the dump cannot be restored; older dumps stay"
  listing | as_root "$private" >"$scratch/restored" || exit 1
  differences "$scratch/listing" "$scratch/restored" >&2 ||
    give_up "the restored dump has other objects or privileges; older dumps stay"
  if [[ $(<"$1/.version") == "$(series)".* ]]; then # the tables of users differ between series
    dump_globals private_dump >"$scratch/globals" || exit 1
    differences "$1/%globals.sql" "$scratch/globals" >/dev/null ||
      give_up "the restored dump has other users; older dumps stay"
  fi
}

# verify_by_restoring restores all databases of the dump $1 into a private server, as restore.sh does.
verify_by_restoring() {
  local database log=$scratch/log
  private=$scratch/sock
  start_empty "$scratch/data" >"$log" 2>&1 ||
    give_up "the server to restore into does not start: is there room in $scratch? $(sed -n '$p' "$log")"
  if [ "$SCOPE" = server ]; then
    verify_server "$1"
    return
  fi
  for database in "${databases[@]}"; do
    load_file "$1/$(name_of "$database")" restored || give_up "the dump of $database cannot be restored; older dumps stay"
    [ "$(objects restored | as_root "$private")" = "$(<"$scratch/$(encode "$database")")" ] ||
      give_up "the restored dump of $database has not all that the database has; older dumps stay"
  done
}

verify_dump() {
  local file
  if [ "$VERIFY" != none ]; then
    for file in "$1"/*; do
      read_back "$file" || give_up "the dump in ${file##*/} cannot be read back; older dumps stay"
    done
  fi
  if [ "$VERIFY" = restore ]; then
    verify_by_restoring "$1"
  fi
}

[[ $SCOPE =~ ^(server|database)$ ]] || give_up "SCOPE is $SCOPE, and can be server or database"
[ "${FORMAT:-plain}" = plain ] || give_up "FORMAT is $FORMAT, and can be plain"
[ "${GLOBALS:-false}" = false ] || give_up "GLOBALS is $GLOBALS, and can be false: only the dump of a whole server has users"
[[ $COMPRESSION =~ ^[0-9]$ ]] || give_up "COMPRESSION is $COMPRESSION, and can be 0 to 9"
check_credentials "$credential"
make_dump
