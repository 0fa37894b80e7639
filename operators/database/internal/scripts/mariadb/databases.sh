# shellcheck shell=bash disable=SC2154 # lib.sh and server.sh set what is not set here
# Functions of dump.sh and restore.sh for the contents of a server.

# hex prints a string literal that is independent of the SQL mode.
hex() { printf "x'%s'" "$(printf '%s' "$1" | od -An -v -tx1 | tr -d ' \n')"; }

# objects prints the statement that lists all objects of the database $1 by kind and name.
objects() {
  local name
  name=$(hex "$1")
  cat <<-SQL
	SELECT * FROM (
	  SELECT IF(TABLE_TYPE = 'VIEW', 'VIEW', IF(TABLE_TYPE = 'SEQUENCE', 'SEQUENCE', 'TABLE')) AS kind, TABLE_NAME AS name
	    FROM information_schema.TABLES WHERE TABLE_SCHEMA = $name
	  UNION ALL SELECT ROUTINE_TYPE, ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = $name
	  UNION ALL SELECT 'TRIGGER', TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = $name
	  UNION ALL SELECT 'EVENT', EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA = $name
	) AS objects ORDER BY kind, name
	SQL
}

# system is the list of the databases that every server has.
system="('information_schema', 'performance_schema', 'sys', 'mysql')"

# listing prints the statement that lists the databases with their options, all objects with their engines and definers, and
# the privileges in force.
listing() {
  local users="SUBSTRING(SUBSTRING_INDEX(GRANTEE, '''@''', 1), 2) NOT IN ($builtin)"
  cat <<-SQL
	SELECT 'database', SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA
	  WHERE SCHEMA_NAME NOT IN $system;
	SELECT TABLE_TYPE, TABLE_SCHEMA, TABLE_NAME, ENGINE, TABLE_COLLATION FROM information_schema.TABLES
	  WHERE TABLE_SCHEMA NOT IN $system;
	SELECT 'definer', TABLE_SCHEMA, TABLE_NAME, DEFINER, SECURITY_TYPE FROM information_schema.VIEWS
	  WHERE TABLE_SCHEMA NOT IN $system;
	SELECT ROUTINE_TYPE, ROUTINE_SCHEMA, ROUTINE_NAME, DEFINER, SECURITY_TYPE FROM information_schema.ROUTINES
	  WHERE ROUTINE_SCHEMA NOT IN $system;
	SELECT 'trigger', TRIGGER_SCHEMA, TRIGGER_NAME, DEFINER, EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS
	  WHERE TRIGGER_SCHEMA NOT IN $system;
	SELECT 'event', EVENT_SCHEMA, EVENT_NAME, DEFINER, STATUS FROM information_schema.EVENTS
	  WHERE EVENT_SCHEMA NOT IN $system;
	SELECT GRANTEE, PRIVILEGE_TYPE, IS_GRANTABLE FROM information_schema.USER_PRIVILEGES WHERE $users;
	SELECT GRANTEE, TABLE_SCHEMA, PRIVILEGE_TYPE, IS_GRANTABLE FROM information_schema.SCHEMA_PRIVILEGES WHERE $users;
	SELECT GRANTEE, TABLE_SCHEMA, TABLE_NAME, PRIVILEGE_TYPE, IS_GRANTABLE FROM information_schema.TABLE_PRIVILEGES
	  WHERE $users;
	SELECT GRANTEE, TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, PRIVILEGE_TYPE, IS_GRANTABLE
	  FROM information_schema.COLUMN_PRIVILEGES WHERE $users;
	SQL
}

# dump_globals prints the users and roles with their hashes, privileges and memberships, from the server that the function $1
# dumps. A restore writes these rows, because statements such as GRANT need the objects, which need the users.
dump_globals() {
  local options=(--single-transaction --no-create-info --complete-insert --replace --skip-triggers --skip-comments
    --order-by-primary --hex-blob --no-tablespaces --default-character-set=utf8mb4 "${dump_options[@]}")
  "$1" "${options[@]}" --where="User NOT IN ($builtin)" mysql "${accounts[@]}" &&
    "$1" "${options[@]}" mysql "${registers[@]}" && printf '\nFLUSH PRIVILEGES;\n-- Dump completed\n'
}

# text prints a file of a dump.
text() {
  case $1 in
  *.gz) gzip -dc "$1" ;;
  *) cat "$1" ;;
  esac
}

# start_empty starts a private server with new data in $1. It is stopped with this shell.
start_empty() { install "$1" && start_fast "$1"; }

# start_fast starts a private server for the data in $1 that may lose them in a crash of the machine.
start_fast() {
  start_private "$1" --no-defaults --skip-log-bin --max-allowed-packet=1G --innodb-flush-log-at-trx-commit=0 || return
  trap stop_private EXIT
}

# load_server restores the dump of a whole server in $1 into the private server, whose data are in $2. If there are plugins,
# the server is restarted after the users: only a start loads plugins, and databases may need them.
load_server() {
  local file
  as_root "$private" --binary-mode --database=mysql <"$1/%globals.sql" || return
  if [ -n "$(as_root "$private" <<<'SELECT name FROM mysql.plugin')" ]; then
    stop_private
    start_fast "$2" || return
  fi
  for file in "$1"/%server.sql*; do
    text "$file" | as_root "$private" --binary-mode --max-allowed-packet=1G || return
  done
}

# load_file restores the file $1, of one database, into the new database $2 of the private server, with the permissions of
# DATABASE_USER on it.
load_file() {
  local user
  user="$(literal "$DATABASE_USER")@'%'"
  as_root "$private" <<-SQL || return
	SET SESSION sql_mode = '';
	DROP DATABASE IF EXISTS $(identifier "$2");
	CREATE DATABASE $(identifier "$2") CHARACTER SET utf8mb4;
	CREATE USER IF NOT EXISTS $user;
	GRANT ALL ON $(granted "$2").* TO $user;
	SQL
  text "$1" | "$CLIENT" --no-defaults "${local_options[@]}" --socket="$private" --user="$DATABASE_USER" --binary-mode \
    --default-character-set=utf8mb4 --max-allowed-packet=1G --database="$2"
}
