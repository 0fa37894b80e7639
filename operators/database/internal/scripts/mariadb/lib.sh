# shellcheck shell=bash
# What the scripts of MariaDB and MySQL share.
#
# They run in the image of the server, as whoever owns the data directory, and are told by the environment:
#   DATADIR           the data directory; it exists if and only if it is complete
#   MEMBER            the ordinal of this member; 0 is the primary
#   PRIMARY_HOST      where the primary listens
#   PRIMARY_PORT      the port of all members
#   DATABASE          the name of the database
#   DATABASE_USER     who has all rights on it, from everywhere
#   CREDENTIALS       a directory with the files password and replication-password, which has at most 32 characters
#   SOCKETS           a directory for sockets, and for what nobody else may read; whoever reaches a socket is root
#   CONFIG            a directory with the user's settings, in files that end in .cnf
# PORT and LISTEN are the port and the addresses of this member if they are not those of a pod.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "${BASH_SOURCE[0]%/*}/common.sh"
# shellcheck source-path=SCRIPTDIR source=server.sh
. "${BASH_SOURCE[0]%/*}/server.sh"

# socket is that of the member, and private that of a server that only a script uses.
# shellcheck disable=SC2034 # probe.sh and run.sh use it
socket=$SOCKETS/server.sock
private=$SOCKETS/private.sock

# literal prints a string as SQL has it, with the backslash as escape.
literal() { printf "'%s'" "$(replace "$(replace "$1" \\ \\\\)" "'" "\\'")"; }

# identifier prints a name as SQL has it.
# shellcheck disable=SC2016 # nothing is to be expanded
identifier() { printf '`%s`' "$(replace "$1" '`' '``')"; }

# granted prints the name of a database for GRANT, where underscores would stand for any character.
granted() { identifier "$(replace "$(replace "$(replace "$1" \\ \\\\)" _ '\_')" % '\%')"; }

# series prints the series of the server's programs, such as 10.11.
series() { "$SERVER" --no-defaults --version | sed -E 's/.* (Ver|from) ([0-9]+\.[0-9]+).*/\2/'; }

# later tells whether the series $1 is later than $2.
later() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | sed -n '$p')" = "$1" ]; }

# check_series refuses data of a later series: a server upgrades those of an earlier one, and never goes back.
check_series() {
  local has wants
  has=$(<"$DATADIR/series")
  wants=$(series)
  ! later "$has" "$wants" || give_up "the data are of $PRODUCT $has and the image is $wants: go back to version $has"
}

# quoted prints a value as a file of settings has it.
quoted() { printf '"%s"' "$(replace "$(replace "$1" \\ \\\\)" '"' '\"')"; }

# client_file prints what a client reads to log in as the user $1 with the credential $2 at the host $3 and port $4. It is
# read from a pipe, so that no process has the password in its arguments or its environment, and no file has it either.
client_file() {
  printf '[client]\nuser=%s\npassword=%s\n' "$(quoted "$1")" "$(quoted "$(credential "$2")")"
  printf 'host=%s\nport=%d\n' "$(quoted "$3")" "$4"
}

# as_root runs statements, which it reads, over the socket $1; other arguments are the client's.
as_root() {
  "$CLIENT" --no-defaults "${local_options[@]}" --socket="$1" --user=root --default-character-set=utf8mb4 --batch --raw \
    --skip-column-names "${@:2}"
}

# ping succeeds if the server at the socket $1 answers, though it may refuse.
ping() { "$ADMIN" --no-defaults "${local_options[@]}" --socket="$1" --user=root --connect-timeout=4 ping >/dev/null 2>&1; }

# start_private runs a server for the data in $1 that only this script reaches; the other arguments are the server's, and the
# first says where its settings are.
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

# stop_private ends it cleanly.
stop_private() {
  kill "$server"
  wait "$server"
}

# write_settings writes the file that the server reads first: what the user may change, and where the user does.
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
