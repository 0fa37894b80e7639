#!/usr/bin/env bash
# Writes a dump, verifies it, and only then renames it and deletes older ones. A directory with the name of a dump can be
# restored. Variables beside those of lib.sh:
#   HOST, PORT   the server; a replica is sufficient
#   BACKUPS      the directory of the dumps; see dumps.sh
#   NAME         the name of the dump
#   SERIES       the series of the dump; default: NAME up to its last hyphen. When the disk is full, the oldest dump of the
#                series is deleted, unless it is the only one that was verified.
#   KEEP         number of dumps of the series to keep, including this one; default 0: all
#   KEEP_FOR     seconds to keep older dumps of the series; default: no limit
#   FORMAT       custom, the default, plain or directory
#   COMPRESSION  0 to 9; default 6
#   SCOPE        server: all databases but templates, with owners, privileges and settings, and %globals.sql with the roles,
#                their hashes of passwords and their settings; database, the default: DATABASES, as DATABASE_USER
#   DATABASES    the databases to dump, separated by blanks; default DATABASE
#   GLOBALS      true: write the roles, without passwords, to %globals.sql of the dump; no restore applies it
#   VERIFY       none; list, the default: read the dump to its end; restore: restore it into a private server and compare the
#                number of rows in all tables with the snapshot of the dump, and the roles and databases of a whole server
#   SCRATCH      directory for the data of the private server; default SOCKETS
# The termination log has the result as one line of JSON.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
# shellcheck source-path=SCRIPTDIR source=dumps.sh
. "${BASH_SOURCE[0]%/*}/dumps.sh"

# shellcheck source-path=SCRIPTDIR source=load.sh
. "${BASH_SOURCE[0]%/*}/load.sh"

FORMAT=${FORMAT:-custom} COMPRESSION=${COMPRESSION:-6} SCOPE=${SCOPE:-database}
user=$DATABASE_USER credential=password databases=("$DATABASE")
if [ "$SCOPE" = server ]; then
  user=$dumper credential=dump-password databases=()
elif [ -n "${DATABASES:-}" ]; then
  read -r -a databases <<<"$DATABASES"
fi
connection=(--host="$HOST" --port="$PORT" --username="$user" --no-password)
export PGPASSFILE=$SOCKETS/.pgpass-dump PGGSSENCMODE=disable

# name_of prints the name of the file, or directory, of the database $1.
name_of() {
  case $FORMAT in
  custom) printf '%s.dump' "$(encode "$1")" ;;
  directory) printf '%s.dir' "$(encode "$1")" ;;
  plain) if [ "$COMPRESSION" = 0 ]; then printf '%s.sql' "$(encode "$1")"; else printf '%s.sql.gz' "$(encode "$1")"; fi ;;
  esac
}

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
  if [ "$SCOPE" = server ]; then
    options+=(--no-tablespaces)
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
    (''idle_in_transaction_session_timeout'', ''transaction_timeout'', ''statement_timeout''); END';" \
    'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;' 'SET LOCAL row_security = off;' \
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

# first prints the database for questions about the server.
first() { if [ "$SCOPE" = server ]; then printf postgres; else printf '%s' "${databases[0]}"; fi; }

# ask executes the statement $1 in the database $2, or in that for questions about the server.
ask() { run "${connection[@]}" --dbname="$(conninfo "${2:-$(first)}")" --command="$1"; }

# listing prints the statement that lists the roles, their memberships and settings, and the databases with their owners,
# privileges and settings.
listing() {
  cat <<-'SQL'
	SELECT 'role', rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls,
	  rolconnlimit, rolvaliduntil FROM pg_catalog.pg_roles WHERE rolname !~ '^pg_' AND rolname <> 'database_restore' ORDER BY 2;
	SELECT 'member', r.rolname, m.rolname, admin_option FROM pg_catalog.pg_auth_members
	  JOIN pg_catalog.pg_roles r ON r.oid = roleid JOIN pg_catalog.pg_roles m ON m.oid = member
	  WHERE m.rolname !~ '^pg_' AND m.rolname <> 'database_restore' ORDER BY 2, 3;
	SELECT 'setting', r.rolname, d.datname, setconfig FROM pg_catalog.pg_db_role_setting
	  LEFT JOIN pg_catalog.pg_roles r ON r.oid = setrole LEFT JOIN pg_catalog.pg_database d ON d.oid = setdatabase
	  WHERE r.rolname IS DISTINCT FROM 'database_restore' ORDER BY 2, 3;
	SELECT 'database', datname, pg_catalog.pg_get_userbyid(datdba), pg_catalog.pg_encoding_to_char(encoding), datcollate,
	  datctype, datconnlimit, ARRAY(SELECT a::text FROM pg_catalog.unnest(coalesce(datacl,
	  pg_catalog.acldefault('d', datdba))) a ORDER BY 1) FROM pg_catalog.pg_database
	  WHERE datname NOT IN ('template0', 'template1') ORDER BY 2;
	SQL
}

# choose_databases sets databases to all of the server, and fails if one cannot be dumped.
choose_databases() {
  local names name
  names=$(ask "SELECT datname FROM pg_catalog.pg_database WHERE NOT datistemplate ORDER BY datname") || return
  mapfile -t databases <<<"$names"
  for name in "${databases[@]}"; do
    check_database "$name"
  done
}

# check_database fails if the database $1 has something that only a superuser can dump.
check_database() {
  local found
  found=$(ask "SELECT 'subscription ' || s.subname FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_database d
      ON d.oid = s.subdbid WHERE d.datname = current_database()
    UNION ALL SELECT 'user mapping of ' || usename || ' for server ' || srvname FROM pg_catalog.pg_user_mappings
      WHERE umoptions IS NULL LIMIT 1" "$1") ||
    give_up "role $dumper cannot connect to database $1: let it with GRANT CONNECT ON DATABASE $(identifier "$1") TO" \
      "$dumper and ALTER DATABASE $(identifier "$1") ALLOW_CONNECTIONS true, or make the database a template;" \
      "older dumps stay"
  [ -z "$found" ] ||
    give_up "database $1 has a $found, whose connection only a superuser can read, so that a dump would lack it: drop it," \
      "and make it again after a restore; older dumps stay"
}

# dump_globals writes the roles to the file $1.
dump_globals() {
  local options=(--globals-only --no-tablespaces --database="$(first)" --file="$1")
  if [ "$SCOPE" != server ]; then
    options+=(--no-role-passwords)
  fi
  pg_dumpall "${connection[@]}" "${options[@]}" || give_up "pg_dumpall failed, $(free) bytes are free; older dumps stay"
  [[ $(tail -n 8 "$1") == *'-- PostgreSQL database cluster dump complete'* ]] ||
    give_up "the roles were not dumped to their end; older dumps stay"
}

# answers succeeds if the server answers, and writes its version to $1. Its error is in $1.error.
answers() {
  ask 'SHOW server_version' >"$1" 2>"$1.error" || {
    cat "$1.error" >&2
    return 1
  }
}

# connect waits for the server.
connect() {
  local why
  write_passfile "$credential" "$PGPASSFILE" || exit 1
  if ! patiently answers "$1"; then
    why=$(tr '\n' ' ' <"$1.error")
    case $why in
    *'password authentication failed'* | *'role '*'does not exist'*)
      give_up "the server rejects the password of $user: correct it in the Secret; a member of a Database takes it over" \
        "when it starts, so restart it; older dumps stay"
      ;;
    *) give_up "the server does not answer: $why; older dumps stay" ;;
    esac
  fi
  rm -f "$1.error"
}

write_dump() {
  local has wants database
  connect "$1/.version"
  has=$(major pg_dump)
  wants=$(sed -E 's/^([0-9]+).*/\1/' "$1/.version")
  [ "$has" -ge "$wants" ] ||
    give_up "pg_dump is of version $has and cannot dump a server of version $wants: use the image of the server"
  if [ "$SCOPE" = server ]; then
    choose_databases || give_up "the databases cannot be listed; older dumps stay"
  fi
  if [ "$VERIFY" = restore ] && [ "$SCOPE" = server ]; then
    { listing | run "${connection[@]}" --dbname=postgres >"$scratch/%listing" &&
      ask 'SHOW shared_preload_libraries' >"$scratch/%libraries"; } || give_up "the server does not answer; older dumps stay"
  fi
  for database in "${databases[@]}"; do
    if [ "$VERIFY" = restore ]; then
      dump_and_count "$database" "$1/$(name_of "$database")" "$scratch/$(encode "$database")"
    else
      dump_database "$database" "$1/$(name_of "$database")"
    fi
  done
  if [ "$SCOPE" = server ] || [ "${GLOBALS:-false}" = true ]; then
    dump_globals "$1/%globals.sql"
  fi
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

# counts fails unless the restored database $1 has the rows that were counted for $2.
counts() {
  local now
  now=$(counting | run "${private[@]}" --username=postgres --dbname="$(conninfo "$1")") || exit 1
  [ "$now" = "$(<"$scratch/$(encode "$2")")" ] ||
    give_up "the restored dump of $2 has other numbers of rows; older dumps stay"
}

# verify_by_restoring restores the dump $1 into a private server, as restore.sh does, and compares.
verify_by_restoring() {
  local database file on libraries=()
  if [ "$SCOPE" = server ] && [ -s "$scratch/%libraries" ]; then
    libraries=(-c "shared_preload_libraries=$(<"$scratch/%libraries")")
  fi
  unset PGREQUIREAUTH # of the source; the private server trusts its socket
  { CONFIG='' new_cluster "$scratch/data" && start_private "$scratch/data" "$scratch/run" "${libraries[@]}"; } ||
    give_up "the server to restore into does not start: is there room in $scratch?"
  on=("${private[@]}" --username=postgres --dbname=template1)
  if [ "$SCOPE" = server ]; then
    load_server "$1" || give_up "the dump cannot be restored; older dumps stay"
    for database in "${databases[@]}"; do
      counts "$database" "$database"
    done
    [ "$(listing | run "${on[@]}")" = "$(<"$scratch/%listing")" ] || {
      listing | run "${on[@]}" | diff "$scratch/%listing" - >&2 || true
      give_up "the restored dump has other roles, databases or privileges; older dumps stay"
    }
    return
  fi
  run "${on[@]}" --command="CREATE ROLE restorer LOGIN" || exit 1
  for database in "${databases[@]}"; do
    file=$1/$(name_of "$database")
    run "${on[@]}" --command="CREATE DATABASE restored OWNER restorer" || exit 1
    load_file "$file" restored restorer || give_up "the dump of $database cannot be restored; older dumps stay"
    counts restored "$database"
    run "${on[@]}" --command="DROP DATABASE restored" || exit 1
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

[[ $SCOPE =~ ^(server|database)$ ]] || give_up "SCOPE is $SCOPE, and can be server or database"
case $FORMAT in custom | plain | directory) ;; *) give_up "FORMAT is $FORMAT, and can be custom, plain or directory" ;; esac
[[ $COMPRESSION =~ ^[0-9]$ ]] || give_up "COMPRESSION is $COMPRESSION, and can be 0 to 9"
[ "$SCOPE" = database ] || [ "$FORMAT" != plain ] ||
  give_up "FORMAT is plain, and that of a whole server can be custom or directory: change spec.pgDump.format"
check_credentials "$credential"
make_dump
