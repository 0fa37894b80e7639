# shellcheck shell=bash
# The directory of dumps, common to all engines. A dump is a directory with the files of one or more databases, SHA256SUMS,
# and about.json, its description. It has its name if and only if it is complete; while it is written or deleted, its name
# begins with a dot. A file NAME.hold beside it excludes it from deletion.

# encode prints the name of a database as a file name.
encode() {
  local LC_ALL=C text=$1 i c
  for ((i = 0; i < ${#text}; i++)); do
    c=${text:i:1}
    case $c in
    [A-Za-z0-9_-]) printf '%s' "$c" ;;
    *) printf '%%%02X' "'$c" | sed 's/%F*\(..\)$/%\1/' ;;
    esac
  done
}

# decode prints the name of the database that encode made $1 of.
decode() { printf '%b' "${1//%/\\x}"; }

# is_name succeeds if $1 is a valid name of a dump. Such a name needs no quoting.
is_name() {
  local LC_ALL=C
  [[ $1 =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$ ]]
}

# check_name rejects an invalid name.
check_name() {
  is_name "$1" ||
    give_up "\"$1\" cannot be the name of a dump: that has letters, digits, and after the first also dots, underscores" \
      "and hyphens"
}

complete() { [ -d "$1" ] && [ ! -L "$1" ] && [ -s "$1/about.json" ]; }

# read_about sets about to the description of the dump $1. It, finished and series_of set variables and print nothing: a
# command substitution starts a process, and there may be thousands of dumps.
read_about() { { IFS='' read -r -d '' about || true; } <"$BACKUPS/$1/about.json"; }

# finished sets time to when the dump $1 was finished, in seconds since 1970. Without it in the description, the time of the
# file is used, which may be later after a copy.
finished() {
  local about
  read_about "$1" || return
  if [[ $about =~ \"finished\":([0-9]{1,15})[,}] ]]; then
    time=$((10#${BASH_REMATCH[1]}))
  else
    time=$(stat -c %Y "$BACKUPS/$1/about.json")
  fi
}

# dumps prints the names of all complete dumps, the last finished one first. Names are not sorted, because writers use
# different formats.
dumps() {
  local dir time
  for dir in "$BACKUPS"/*; do
    if is_name "${dir##*/}" && complete "$dir" && finished "${dir##*/}"; then
      printf '%015d %s\n' "$time" "${dir##*/}"
    fi
  done | LC_ALL=C sort -r | sed 's/.* //'
}

# newest prints the name of the dump that was finished last. The clock of its node may have been wrong: those that were
# finished in the future count only if there are no others.
newest() {
  local names name latest time
  names=$(dumps) latest=$(($(date +%s) + 300))
  for name in $names; do
    if finished "$name" && [ "$time" -le "$latest" ]; then
      printf '%s' "$name"
      return
    fi
  done
  printf '%s' "${names%%$'\n'*}"
}

# series_of sets series to that of the dump $1: that of its description, or its name up to the last hyphen. Names without a
# hyphen are one series.
series_of() {
  local about='' name=-$1
  if [ -e "$BACKUPS/$1/about.json" ]; then
    read_about "$1"
  fi
  if [[ $about =~ \"series\":\"([A-Za-z0-9._/-]+)\" ]]; then
    series=${BASH_REMATCH[1]}
  else
    name=${name%-*}
    series=${name#-}
  fi
}

# akin succeeds if the dump $1 is of the same series as NAME.
akin() {
  local series own
  series_of "$NAME"
  own=${SERIES:-$series}
  series_of "$1"
  [ "$series" = "$own" ]
}

# held succeeds if a dump is on hold.
held() { [ -e "$BACKUPS/$1.hold" ]; }

# discard deletes a dump. An interrupted deletion leaves no directory with a valid name.
discard() {
  local gone
  gone=$(mktemp -d "$BACKUPS/.deleted.XXXXXX")
  mv -T "$BACKUPS/$1" "$gone/$1"
  rm -rf "$gone"
}

# clear_leftovers deletes the directories of interrupted scripts. With the lock there is no other writer. Without it, a
# directory counts as interrupted after a day without a write.
clear_leftovers() {
  local dir file left
  rm -rf "$BACKUPS"/.deleted.??????
  for dir in "$BACKUPS"/.partial.??????; do
    left=yes
    if [ "$1" != locked ]; then
      for file in "$dir" "$dir"/* "$dir"/*/*; do
        if [ -e "$file" ] && [ "$(age "$file")" -lt 86400 ]; then
          left=no
        fi
      done
    fi
    if [ "$left" = yes ]; then
      rm -rf "$dir"
    fi
  done
}

# take_turns waits for the lock of the directory. Child processes inherit the lock, so that a dump is not deleted while it is
# written.
take_turns() {
  exec {lock}>>"$BACKUPS/.lock" || give_up "nothing can be written to $BACKUPS"
  if command -v flock >/dev/null && attend flock "$lock"; then
    clear_leftovers locked
  else
    say "the dumps cannot be locked; a dump that is written at the same time has another directory"
    clear_leftovers unlocked
  fi
}

# free prints the number of free bytes.
free() {
  local blocks size
  read -r blocks size <<<"$(stat -f -c '%a %S' "$BACKUPS")"
  printf '%d' "$((blocks * size))"
}

# files prints the files of the dump in $1, without its metadata.
files() {
  local file
  for file in "$1"/* "$1"/*/*; do
    if [ -f "$file" ] && [ "${file##*/}" != about.json ] && [ "${file##*/}" != SHA256SUMS ]; then
      printf '%s\n' "${file#"$1/"}"
    fi
  done
}

# digest adds the checksums to the dump $1 and prints its location in BACKUPS, its size in bytes and its checksum. For
# several files they are those of the directory and of the list of checksums.
digest() {
  local list size=0 file sum
  list=$(files "$1")
  while read -r file; do
    size=$((size + $(stat -c %s "$1/$file")))
  done <<<"$list"
  (cd "$1" && while read -r file; do sha256sum "$file" || exit; done <<<"$list" >SHA256SUMS) || return
  if [[ $list == *$'\n'* ]]; then
    sum=$(sha256sum <"$1/SHA256SUMS")
    printf '%s %d %s' "$NAME" "$size" "${sum%% *}"
  else
    read -r sum _ <"$1/SHA256SUMS"
    printf '%s %d %s' "$NAME/$list" "$size" "$sum"
  fi
}

# outdated succeeds if the dump $1, after $2 newer ones that stay, exceeds KEEP or KEEP_FOR.
outdated() {
  local time
  if [ "$KEEP" -gt 0 ] && [ "$2" -ge "$KEEP" ]; then
    return 0
  fi
  [ -n "${KEEP_FOR:-}" ] && finished "$1" && [ "$(($(date +%s) - time))" -gt "$KEEP_FOR" ]
}

# retain deletes old dumps of the series of NAME: those beyond the newest KEEP, unless that is 0, and those older than
# KEEP_FOR seconds. The newest one and NAME always stay. Dumps on hold do not count.
retain() {
  local names name newer=0
  names=$(dumps)
  while read -r name; do
    if ! akin "$name" || held "$name"; then
      continue
    fi
    if [ "$newer" -gt 0 ] && [ "$name" != "$NAME" ] && outdated "$name" "$newer"; then
      discard "$name"
    else
      newer=$((newer + 1))
    fi
  done <<<"$names"
}

# is_full succeeds if the dump in $work, or a part of it, has filled the directory.
is_full() {
  local file
  for file in "$work"/*; do
    if [ -s "$file" ]; then
      ! head -c 262144 /dev/zero 2>/dev/null >"$work/.rest"
      return
    fi
  done
  return 1
}

# make_room deletes the oldest dump of the series, and fails unless one that was verified remains.
make_room() {
  local names name oldest='' verified=0 about
  names=$(dumps)
  for name in $names; do
    if akin "$name"; then
      if ! held "$name"; then
        oldest=$name
      fi
      if read_about "$name" && [[ $about =~ \"verified\":\"(list|restore)\" ]]; then
        verified=$((verified + 1))
      fi
    fi
  done
  if [ -z "$oldest" ] || [ "$verified" -lt 2 ]; then
    return 1
  fi
  say "there is no room for another dump: deleting $oldest, the oldest one of the series"
  discard "$oldest"
}

# attempt writes, verifies and describes the dump in $work.
attempt() {
  local about location size sum version now series
  write_dump "$work" || exit 1
  verify_dump "$work" || exit 1
  about=$(digest "$work") || give_up "the checksums cannot be written, $(free) bytes are free; older dumps stay"
  read -r location size sum <<<"$about"
  version=$(sed 's/[^A-Za-z0-9.+~_-].*//' "$work/.version")
  now=$(date +%s)
  series_of "$NAME"
  {
    printf '{"name":"%s","location":"%s","sizeBytes":%d,"sha256":"%s",' "$NAME" "$location" "$size" "$sum" &&
      printf '"finished":%d,"seconds":%d,"scope":"%s",' "$now" "$((now - began))" "${SCOPE:-database}" &&
      printf '"series":"%s","serverVersion":"%s","verified":"%s"}\n' "${SERIES:-$series}" "$version" "$VERIFY"
  } >"$work/about.json" ||
    give_up "the dump cannot be finished, $(free) bytes are free; older dumps stay"
  rm "$work/.version"
}

# begin creates the directories of an attempt.
begin() {
  work=$(mktemp -d "$BACKUPS/.partial.XXXXXX") || give_up "nothing can be written to $BACKUPS"
  if [ "$VERIFY" = restore ]; then
    scratch=$(mktemp -d "${SCRATCH:-$SOCKETS}/verify.XXXXXX") || give_up "there is no room to restore the dump into"
  fi
}

# make_dump is the common part of dump.sh. The function write_dump $1 writes the files into the directory $1, and the version
# of the server to $1/.version; verify_dump $1 verifies them according to VERIFY. Both run in one subshell, which may run a
# second time. The directory $scratch exists if VERIFY is restore.
make_dump() {
  umask 077 # a dump has all data, and the hashes of passwords
  local began about
  began=$(date +%s)
  NAME=${NAME:?} VERIFY=${VERIFY:-list} KEEP=${KEEP:-0}
  check_name "$NAME"
  case $VERIFY in
  none | list | restore) ;;
  *) give_up "VERIFY is $VERIFY, and can be none, list or restore" ;;
  esac
  [[ $KEEP =~ ^[0-9]+$ ]] || give_up "KEEP is $KEEP, and must be a number of dumps, or 0 for all of them"
  [[ ${SERIES:-x} =~ ^[A-Za-z0-9._/-]{1,200}$ ]] ||
    give_up "SERIES is $SERIES, and can have letters, digits, dots, underscores, slashes and hyphens"
  [[ ${KEEP_FOR:-0} =~ ^[0-9]+$ ]] || give_up "KEEP_FOR is $KEEP_FOR, and must be a number of seconds"
  take_turns
  if complete "$BACKUPS/$NAME"; then
    say "$NAME is there already: an earlier attempt got that far"
  else
    [ ! -e "$BACKUPS/$NAME" ] || give_up "$BACKUPS/$NAME is there and is no dump: nothing is put over it"
    trap 'rm -rf "${work:-}" "${scratch:-}"' EXIT
    begin
    if ! attend attempt; then
      # A full disk would be full in all nights to come.
      is_full && make_room || exit 1
      rm -rf "$work" "${scratch:-}"
      begin
      attend attempt || exit 1
    fi
    put_in_place "$work" "$BACKUPS/$NAME"
  fi
  retain
  about=$(<"$BACKUPS/$NAME/about.json")
  printf '%s\n' "$about"
  tell "$about"
}

# choose_dump sets NAME to the newest dump if it is empty, and verifies the checksums.
choose_dump() {
  if [ -z "${NAME:-}" ]; then
    NAME=$(newest)
    [ -n "$NAME" ] || give_up "there is no dump in $BACKUPS"
  fi
  check_name "$NAME"
  complete "$BACKUPS/$NAME" || give_up "there is no dump $NAME in $BACKUPS"
  (cd "$BACKUPS/$NAME" && sha256sum -c SHA256SUMS >/dev/null) ||
    give_up "the dump $NAME is not what it was when it was written"
}

# is_server succeeds if the chosen dump is one of a whole server.
is_server() { [[ $(<"$BACKUPS/$NAME/about.json") == *'"scope":"server"'* ]]; }

# choose_file sets file to the file or directory of DATABASE in the dump, or to the only one.
choose_file() {
  local name all=()
  for name in "$BACKUPS/$NAME"/*; do
    case ${name##*/} in
    "$(encode "$DATABASE")".*)
      file=$name
      return
      ;;
    about.json | SHA256SUMS | %globals.sql) ;;
    *) all+=("$name") ;;
    esac
  done
  [ ${#all[@]} = 1 ] || give_up "the dump $NAME is of several databases and has none of the name $DATABASE"
  file=${all[0]}
}

# restore_into restores the chosen dump with the function load, completely or not at all: load fills the directory
# $1.partial, which becomes $1. $1.restored has the name of the dump.
restore_into() {
  local began
  began=$(date +%s)
  if [ -e "$1" ]; then
    [ -s "$1.restored" ] || give_up "there are data in $1 already: nothing is put over them"
    NAME=$(<"$1.restored")
    say "the dump $NAME was restored before"
    restored "$began"
    return
  fi
  lock_data "$1"
  choose_dump
  rm -rf "$1.partial" "$1.followed"
  attend load "$1.partial" || {
    [ -s "${TERMINATION_LOG:-/dev/termination-log}" ] ||
      tell "the dump $NAME cannot be restored: the log of the container says why"
    exit 1
  }
  printf '%s\n' "$NAME" >"$1.restored"
  put_in_place "$1.partial" "$1"
  restored "$began"
}

# restored writes the result of a restore that began at $1.
restored() {
  tell "$(printf '{"name":"%s","seconds":%d}' "$NAME" "$(($(date +%s) - $1))")"
}
