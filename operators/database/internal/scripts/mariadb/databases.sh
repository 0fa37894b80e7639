# shellcheck shell=bash
# Functions of dump.sh and restore.sh for queries to the server at HOST and PORT as DATABASE_USER.

# mark is a table with the progress of restore.sh in its comment. It is in no dump.
# shellcheck disable=SC2034 # dump.sh and restore.sh use it
mark=_restored_dump

credentials() { client_file "$DATABASE_USER" password "$HOST" "$PORT"; }

# ask runs the statements on its standard input.
ask() { "$CLIENT" --defaults-file=<(credentials) --batch --raw --skip-column-names --default-character-set=utf8mb4; }

# answers succeeds if the server answers.
answers() { ask <<<'SELECT 1' >/dev/null; }

# hex prints a string literal that is independent of the SQL mode.
hex() { printf "x'%s'" "$(printf '%s' "$1" | od -An -v -tx1 | tr -d ' \n')"; }

# objects prints the statement that lists all objects of the database $1 by kind and name.
objects() {
  local name
  name=$(hex "$1")
  cat <<-SQL
	SELECT * FROM (
	  SELECT IF(TABLE_TYPE = 'VIEW', 'VIEW', IF(TABLE_TYPE = 'SEQUENCE', 'SEQUENCE', 'TABLE')) AS kind, TABLE_NAME AS name
	    FROM information_schema.TABLES WHERE TABLE_SCHEMA = $name AND TABLE_NAME <> '$mark'
	  UNION ALL SELECT ROUTINE_TYPE, ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = $name
	  UNION ALL SELECT 'TRIGGER', TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = $name
	  UNION ALL SELECT 'EVENT', EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA = $name
	) AS objects ORDER BY kind, name
	SQL
}

# text prints a file of a dump.
text() {
  case $1 in
  *.gz) gzip -dc "$1" ;;
  *) cat "$1" ;;
  esac
}
