# shellcheck shell=bash
# Common functions of the scripts for MariaDB and MySQL.
#
# They run in the image of the server as the owner of the data directory. Environment variables:
#   DATADIR           the data directory; it exists if and only if it is complete
#   MEMBER            the ordinal of this member; 0 is the primary
#   PRIMARY_HOST      the host name of the primary
#   PRIMARY_PORT      the port of all members
#   DATABASE          the name of the database
#   DATABASE_USER     the user with all permissions on it, from every host
#   CREDENTIALS       a directory with the files password, dump-password and replication-password (at most 32
#                     characters)
#   SOCKETS           a private directory for sockets and temporary files; access to a socket is access as root
#   CONFIG            a directory with the user's settings, in files *.cnf
# PORT and LISTEN override the port and the addresses of this member.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "${BASH_SOURCE[0]%/*}/common.sh"
# shellcheck source-path=SCRIPTDIR source=server.sh
. "${BASH_SOURCE[0]%/*}/server.sh"

# socket is the socket of the member, private that of a server for a script.
# shellcheck disable=SC2034 # probe.sh and run.sh use it
socket=$SOCKETS/server.sock
private=$SOCKETS/private.sock

# dumper is the user of dumps. It reads everything over the network and may write nothing. Listing triggers and events needs
# TRIGGER and EVENT, which also allow to create them; those of this user can only read.
# shellcheck disable=SC2034 # run.sh and dump.sh use it
dumper=database_dump

# literal prints an SQL string with backslash escapes.
literal() { printf "'%s'" "$(replace "$(replace "$1" \\ \\\\)" "'" "\\'")"; }

# identifier prints a quoted SQL identifier.
# shellcheck disable=SC2016 # nothing is to be expanded
identifier() { printf '`%s`' "$(replace "$1" '`' '``')"; }

# granted prints the name of a database for GRANT. An unescaped underscore would match any character.
granted() { identifier "$(replace "$(replace "$(replace "$1" \\ \\\\)" _ '\_')" % '\%')"; }

# series prints the series of the server's programs, such as 10.11.
series() { "$SERVER" --no-defaults --version | sed -E 's/.* (Ver|from) ([0-9]+\.[0-9]+).*/\2/'; }

# later succeeds if the series $1 is later than $2.
later() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | sed -n '$p')" = "$1" ]; }

# check_series rejects data of a later series. A server can upgrade data, but not downgrade them.
check_series() {
  local has wants
  has=$(<"$DATADIR/series")
  wants=$(series)
  ! later "$has" "$wants" || give_up "the data are of $PRODUCT $has and the image is $wants: go back to version $has"
}

# quoted prints a value for an option file.
quoted() { printf '"%s"' "$(replace "$(replace "$1" \\ \\\\)" '"' '\"')"; }

# client_file prints the option file of a client: user $1, credential $2, host $3, port $4. It is read from a pipe, so that
# the password is in no argument, no environment variable and no file.
client_file() {
  printf '[client]\nuser=%s\npassword=%s\n' "$(quoted "$1")" "$(quoted "$(credential "$2")")"
  printf 'host=%s\nport=%d\n' "$(quoted "$3")" "$4"
}

# as_root runs the statements on its standard input over the socket $1; other arguments are passed to the client.
as_root() {
  "$CLIENT" --no-defaults "${local_options[@]}" --socket="$1" --user=root --default-character-set=utf8mb4 --batch --raw \
    --skip-column-names "${@:2}"
}

# ping succeeds if the server at the socket $1 answers, even with a rejection.
ping() { "$ADMIN" --no-defaults "${local_options[@]}" --socket="$1" --user=root --connect-timeout=4 ping >/dev/null 2>&1; }

# start_private starts a server for the data in $1 that only this script reaches. Other arguments are passed to the server;
# the first one selects the option file.
start_private() {
  rm -f "$private"
  "$SERVER" "${@:2}" --datadir="$1" --socket="$private" --pid-file="$SOCKETS/private.pid" --skip-networking \
    --innodb-buffer-pool-dump-at-shutdown=OFF --innodb-buffer-pool-load-at-startup=OFF &
  server=$!
  until ping "$private"; do
    kill -0 "$server" 2>/dev/null || return 1
    pause 0.2
  done
}

# stop_private shuts it down.
stop_private() {
  trap - EXIT
  kill "$server"
  wait "$server"
}

# describe writes the files of the primary's new data in $1: series, and server-id unless the engine has none.
describe() {
  series >"$1/series"
  [ "$PRODUCT" = MySQL ] || number "$1"
}

# number writes a random ID of the directory $1, so that histories are not confused.
number() { printf '%d\n' "$(($(od -An -N4 -tu4 /dev/urandom) % 4294967294 + 1))" >"$1/server-id"; }

# hash_of prints MariaDB's hash of the password $1, so that no log has the password.
hash_of() {
  local once i
  once=$(printf '%s' "$1" | sha1sum)
  once=$(for ((i = 0; i < 40; i += 2)); do
    # shellcheck disable=SC2059 # the text is the bytes
    printf "\\x${once:i:2}"
  done | sha1sum)
  once=${once%% *}
  printf '*%s' "${once^^}"
}

# write_settings writes the server's option file. It has overridable defaults and includes the user's settings.
write_settings() {
  cat >"$SOCKETS/server.cnf" <<-CNF
	[mysqld]
	character-set-server = utf8mb4
	# Replicas that are away for longer are copied again; without a limit the disk would be full one day.
	loose-binlog-expire-logs-seconds = 86400
	max-binlog-size = 128M
	sync-binlog = 1
	!includedir $CONFIG
	CNF
}
