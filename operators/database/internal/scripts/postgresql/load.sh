# shellcheck shell=bash
# Functions that restore dumps into the private server of start_private, over its socket.
# shellcheck disable=SC2154 # start_private sets private

# text prints a plain dump.
text() {
  case $1 in
  *.gz) gzip -dc "$1" ;;
  *) cat "$1" ;;
  esac
}

# filtered prints a plain dump without \restrict, and fails if it has another command of psql, such as \! or \copy: these run
# programs and write files on the side of the client. It reads SQL as psql does, and fails where versions of psql differ: at
# a quote after a backslash (it ends a string only with standard_conforming_strings), at a number in front of a letter, and
# at letters beyond ASCII outside of quotes. Of these, pg_dump writes only the first, for a comment or a value of --inserts
# that ends with a backslash.
filtered() {
  text "$1" | tr -d '\000' | LC_ALL=C awk '
function refuse(why) { print "line " NR " of the dump has " why > "/dev/stderr"; bad = 1; exit 1 }
function word(w) {
  w = tolower(w)
  if (words < 4) first[words] = w
  words++
  if (parens || first[0] != "create" || first[1] !~ /^(function|procedure)$/ &&
    (first[1] != "or" || first[2] != "replace" || first[3] !~ /^(function|procedure)$/)) return
  if (w == "begin" || w == "case" && deep) deep++
  if (w == "end" && deep) deep--
}
function lex(s,   c, w) {
  while (s != "") {
    if (state == "") {
      if (match(s, /^[ \t]+/)) { s = substr(s, RLENGTH + 1); last = " "; continue }
      if (match(s, /^[A-Za-z_][A-Za-z0-9_$]*/)) {
        w = substr(s, 1, RLENGTH); s = substr(s, RLENGTH + 1)
        if (tolower(w) == "e" && substr(s, 1, 1) == "\047") {
          if (!index(" (,=[", last)) refuse("an unusual string")
          state = "e"; s = substr(s, 2)
        } else word(w)
        last = "a"
        continue
      }
      if (match(s, /^[.]?[0-9][0-9.]*([Ee][-+]?[0-9]+)?/)) {
        s = substr(s, RLENGTH + 1); last = "0"
        if (s ~ /^[A-Za-z_$]/) refuse("an unusual number")
        continue
      }
      if (match(s, /^\$([A-Za-z_][A-Za-z0-9_]*)?\$/)) {
        state = "$"; tag = substr(s, 1, RLENGTH); s = substr(s, RLENGTH + 1); last = "$"; continue
      }
      if (substr(s, 1, 2) == "--") { if (index(s, "\r")) refuse("a carriage return in a comment"); return }
      if (substr(s, 1, 2) == "/*") { state = "/"; nested = 1; s = substr(s, 3); last = " "; continue }
      if (substr(s, 1, 2) == "::") { s = substr(s, 3); last = ":"; continue }
      c = substr(s, 1, 1); s = substr(s, 2); last = c
      if (c == "\\") refuse("a command of psql")
      if (!index("!\"#$%&\047()*+,-./:;<=>?@[]^`{|}~", c)) refuse("an unusual character outside of quotes")
      if (c == ":" && s ~ /^["\047{A-Z]/) refuse("a variable of psql")
      if (c == "\047") state = "q"
      else if (c == "\"") state = "i"
      else if (c == "(") parens++
      else if (c == ")") { if (parens) parens-- }
      else if (c == ";" && !parens && !deep) { words = 0; split("", first) }
    } else if (state == "$") {
      at = index(s, tag)
      if (!at) return
      s = substr(s, at + length(tag)); state = ""
    } else if (state == "/") {
      if (!match(s, /\/\*|\*\//)) return
      nested += substr(s, RSTART, 2) == "/*" ? 1 : -1
      s = substr(s, RSTART + 2)
      if (!nested) state = ""
    } else if (state == "i") {
      at = index(s, "\"")
      if (!at) return
      s = substr(s, at + 1); state = ""
    } else if (state == "e") {
      if (!match(s, /[\\\047]/)) return
      if (substr(s, RSTART, 1) == "\\") s = substr(s, RSTART + 2)
      else { s = substr(s, RSTART + 1); state = "" }
    } else {
      at = index(s, "\047")
      if (match(substr(s, 1, at ? at - 1 : length(s)), /\\+$/) && RLENGTH % 2) refuse("a quote after a backslash")
      if (!at) return
      s = substr(s, at + 1); state = ""
    }
  }
}
BEGIN {
  name = "([A-Za-z_][A-Za-z0-9_]*|\"([^\"]|\"\")*\")"
  copy = "^COPY " name "([.]" name ")?( [(]" name "(, " name ")*[)]| )? FROM stdin;$"
}
copying {
  if ($0 == "\\.") copying = 0
  else if (/^\\[.]/) refuse("an unusual end of COPY")
  print; next
}
state == "" && !words && !parens && /^\\(un)?restrict [A-Za-z0-9]+$/ { next }
state == "" && !words && !parens && $0 ~ copy { print; copying = 1; next }
{ last = " "; lex($0); print }
END { if (bad || copying || state != "") exit 1 }'
}

# restriction prints the command that makes psql reject all commands of its own, if the image has a psql with it.
restriction() {
  local key
  key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') || return
  if run "${private[@]}" --username=postgres --dbname=template1 --command="\\restrict $key" >/dev/null 2>&1; then
    printf '\\restrict %s\n' "$key"
  fi
}

# load_globals creates the roles of the dump in $1 with their settings; some exist in every server.
load_globals() {
  # shellcheck disable=SC2016 # nothing is to be expanded
  local do='DO $_role_$ BEGIN' done='EXCEPTION WHEN duplicate_object THEN NULL; END $_role_$;'
  local each="s/^CREATE ROLE (.*);\$/$do CREATE ROLE \\1; $done/"
  { restriction && filtered "$1/%globals.sql" | sed -E "$each"; } |
    run "${private[@]}" --username=postgres --dbname=template1 --single-transaction >/dev/null
}

# load_database restores the file $1 of the database $2 with its owner, privileges and settings. Rows are written by a role
# that is no superuser: a table can have a constraint that calls a function of its owner.
load_database() {
  local on=("${private[@]}" --exit-on-error --no-tablespaces) to connect=0
  to=$(conninfo "$2")
  pg_restore "${on[@]}" --username=postgres --create --section=pre-data --dbname=template1 "$1" &&
    connect=$(run "${private[@]}" --username=postgres --dbname="$to" --command="SELECT CASE WHEN
      pg_catalog.has_database_privilege('database_restore', current_database(), 'CONNECT') THEN 0 ELSE 1 END") || return
  if [ "$connect" = 1 ]; then
    run "${private[@]}" --username=postgres --dbname="$to" \
      --command="GRANT CONNECT ON DATABASE $(identifier "$2") TO database_restore" || return
  fi
  pg_restore "${on[@]}" --username=database_restore --section=data --single-transaction --dbname="$to" "$1" &&
    pg_restore "${on[@]}" --username=postgres --section=post-data --single-transaction --dbname="$to" "$1" || return
  if [ "$connect" = 1 ]; then
    run "${private[@]}" --username=postgres --dbname="$to" \
      --command="REVOKE CONNECT ON DATABASE $(identifier "$2") FROM database_restore"
  fi
}

# load_server restores the dump of a whole server in $1 into a new server.
load_server() {
  local file name
  load_globals "$1" || return
  run "${private[@]}" --username=postgres --dbname=template1 <<-'SQL' || return
	DROP DATABASE postgres;
	CREATE ROLE database_restore LOGIN BYPASSRLS;
	GRANT pg_write_all_data TO database_restore;
	ALTER ROLE database_restore SET lo_compat_privileges = on;
	SQL
  for file in "$1"/*.dump "$1"/*.dir; do
    if [ -e "$file" ]; then
      name=$(decode "${file##*/}") && name=${name%.*}
      load_database "$file" "$name" || return
    fi
  done
  run "${private[@]}" --username=postgres --dbname=template1 --command="DROP ROLE database_restore"
}

# load_file restores the file $1, of one database, into the database $2 as its owner $3, without other owners and privileges.
load_file() {
  local by=("${private[@]}" --username="$3" --dbname="$(conninfo "$2")")
  case $1 in
  *.sql | *.sql.gz)
    # A truncated dump does not end with a commit.
    { restriction && printf 'BEGIN;\n' && filtered "$1" && printf 'COMMIT;\n'; } | run "${by[@]}" >/dev/null
    ;;
  *) pg_restore "${by[@]}" --no-owner --no-privileges --exit-on-error --single-transaction "$1" ;;
  esac
}
