# shellcheck shell=bash
# The directory of dumps, which the scripts of all engines keep alike. A dump is a directory with the files of one or more
# databases, SHA256SUMS, and about.json, which is what was told of it; it has its name if and only if it is complete. While
# it is written, or deleted, its name begins with a dot. A file NAME.hold beside it says that it stays until the file goes.

# encode prints the name of a database as the name of a file.
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

# is_name tells whether a dump can have the name $1, which then needs no quotes anywhere.
is_name() {
  local LC_ALL=C
  [[ $1 =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$ ]]
}

# check_name refuses what is no name of a dump.
check_name() {
  is_name "$1" ||
    give_up "\"$1\" cannot be the name of a dump: that has letters, digits, and after the first also dots, underscores" \
      "and hyphens"
}

complete() { [ -d "$1" ] && [ ! -L "$1" ] && [ -s "$1/about.json" ]; }

# finished prints when the dump $1 was finished, in seconds since 1970. What a dump does not say is told by its file: a copy
# of that may be younger.
finished() {
  local about
  about=$(<"$BACKUPS/$1/about.json") || return
  if [[ $about =~ \"finished\":([0-9]{1,15})[,}] ]]; then
    printf '%d' "$((10#${BASH_REMATCH[1]}))"
  else
    stat -c %Y "$BACKUPS/$1/about.json"
  fi
}

# dumps prints the names of all that are complete, the one that was finished last first. Names tell nothing of age: whoever
# writes dumps here names them in another way.
dumps() {
  local dir time
  for dir in "$BACKUPS"/*; do
    if is_name "${dir##*/}" && complete "$dir" && time=$(finished "${dir##*/}"); then
      printf '%015d %s\n' "$time" "${dir##*/}"
    fi
  done | LC_ALL=C sort -r | sed 's/.* //'
}

# akin tells whether the dump $1 is of the series of NAME: their names differ after the last hyphen only. Those that have
# none are a series, too.
akin() {
  local other=-$1 own=-$NAME
  [ "${other%-*}" = "${own%-*}" ]
}

# held tells whether a dump is to stay.
held() { [ -e "$BACKUPS/$1.hold" ]; }

# discard deletes a dump; whoever is ended in the middle leaves nothing that looks like one.
discard() {
  local gone
  gone=$(mktemp -d "$BACKUPS/.deleted.XXXXXX")
  mv -T "$BACKUPS/$1" "$gone/$1"
  rm -rf "$gone"
}

# clear_leftovers deletes what those left who were ended in the middle. With the lock, nobody else writes now. Without, what
# nobody wrote to for a day was left.
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

# take_turns waits until nobody else writes a dump here. Whatever this script runs holds the lock, too, so that a dump is not
# cleared away while what writes it lives.
take_turns() {
  exec {lock}>>"$BACKUPS/.lock" || give_up "nothing can be written to $BACKUPS"
  if command -v flock >/dev/null && attend flock "$lock"; then
    clear_leftovers locked
  else
    say "the dumps cannot be locked; a dump that is written at the same time has another directory"
    clear_leftovers unlocked
  fi
}

# free prints how much can be written.
free() {
  local blocks size
  read -r blocks size <<<"$(stat -f -c '%a %S' "$BACKUPS")"
  printf '%d' "$((blocks * size))"
}

# files prints those of the dump in $1, without what tells of them.
files() {
  local file
  for file in "$1"/* "$1"/*/*; do
    if [ -f "$file" ] && [ "${file##*/}" != about.json ] && [ "${file##*/}" != SHA256SUMS ]; then
      printf '%s\n' "${file#"$1/"}"
    fi
  done
}

# digest adds the checksums to the dump $1 and prints its location in BACKUPS, its size in bytes and its checksum: those of
# its file, or if there is more than one, of its directory and of the list of checksums.
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

# outdated tells whether the dump $1, before which $2 newer ones stay, is one too many or too old.
outdated() {
  if [ "$KEEP" -gt 0 ] && [ "$2" -ge "$KEEP" ]; then
    return 0
  fi
  [ -n "${KEEP_FOR:-}" ] && [ "$(($(date +%s) - $(finished "$1")))" -gt "$KEEP_FOR" ]
}

# retain deletes old dumps of the series of NAME: those that are not among its newest KEEP, unless that is 0, and those that
# are older than KEEP_FOR seconds. The newest stays always, and so does the one that was just written. Those that are held
# do not count.
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

# make_dump does all that is the same for all engines. The function write_dump $1 puts the files into the directory $1, and
# the version of the server into $1/.version; verify_dump $1 reads all of them back, as far as VERIFY says. There is a
# directory $scratch if that is restore.
make_dump() {
  local began now location size sum version about
  began=$(date +%s)
  NAME=${NAME:?} VERIFY=${VERIFY:-list} KEEP=${KEEP:-0}
  check_name "$NAME"
  case $VERIFY in
  none | list | restore) ;;
  *) give_up "VERIFY is $VERIFY, and can be none, list or restore" ;;
  esac
  [[ $KEEP =~ ^[0-9]+$ ]] || give_up "KEEP is $KEEP, and must be a number of dumps, or 0 for all of them"
  [[ ${KEEP_FOR:-0} =~ ^[0-9]+$ ]] || give_up "KEEP_FOR is $KEEP_FOR, and must be a number of seconds"
  take_turns
  if complete "$BACKUPS/$NAME"; then
    say "$NAME is there already: an earlier attempt got that far"
  else
    [ ! -e "$BACKUPS/$NAME" ] || give_up "$BACKUPS/$NAME is there and is no dump: nothing is put over it"
    work=$(mktemp -d "$BACKUPS/.partial.XXXXXX") || give_up "nothing can be written to $BACKUPS"
    trap 'rm -rf "$work" "${scratch:-}"' EXIT
    if [ "$VERIFY" = restore ]; then
      scratch=$(mktemp -d "${SCRATCH:-$SOCKETS}/verify.XXXXXX") || give_up "there is no room to restore the dump into"
    fi
    attend write_dump "$work" || exit 1
    attend verify_dump "$work" || exit 1
    about=$(digest "$work") || give_up "the checksums cannot be written, $(free) bytes are free; older dumps stay"
    read -r location size sum <<<"$about"
    version=$(sed 's/[^A-Za-z0-9.+~_-].*//' "$work/.version")
    now=$(date +%s)
    {
      printf '{"name":"%s","location":"%s","sizeBytes":%d,"sha256":"%s",' "$NAME" "$location" "$size" "$sum" &&
        printf '"finished":%d,"seconds":%d,' "$now" "$((now - began))" &&
        printf '"serverVersion":"%s","verified":"%s"}\n' "$version" "$VERIFY"
    } >"$work/about.json" ||
      give_up "the dump cannot be finished, $(free) bytes are free; older dumps stay"
    rm "$work/.version"
    chmod 755 "$work"
    put_in_place "$work" "$BACKUPS/$NAME"
  fi
  retain
  about=$(<"$BACKUPS/$NAME/about.json")
  printf '%s\n' "$about"
  tell "$about"
}

# choose_dump sets NAME to the newest if it is empty, and checks that the dump is there and what it was.
choose_dump() {
  if [ -z "${NAME:-}" ]; then
    NAME=$(dumps | sed -n 1p) # which reads all: who writes is not to end with an error
    [ -n "$NAME" ] || give_up "there is no dump in $BACKUPS"
  fi
  check_name "$NAME"
  complete "$BACKUPS/$NAME" || give_up "there is no dump $NAME in $BACKUPS"
  (cd "$BACKUPS/$NAME" && sha256sum -c SHA256SUMS >/dev/null) ||
    give_up "the dump $NAME is not what it was when it was written"
}

# choose_file prints the file or directory of DATABASE in the dump, or the only one that there is.
choose_file() {
  local file all=()
  for file in "$BACKUPS/$NAME"/*; do
    case ${file##*/} in
    "$(encode "$DATABASE")".*)
      printf '%s' "$file"
      return
      ;;
    about.json | SHA256SUMS | %globals.sql) ;;
    *) all+=("$file") ;;
    esac
  done
  [ ${#all[@]} = 1 ] || give_up "the dump $NAME is of several databases and has none of the name $DATABASE"
  printf '%s' "${all[0]}"
}

# restored tells that a restore, which began at $1, is done.
restored() {
  tell "$(printf '{"name":"%s","seconds":%d}' "$NAME" "$(($(date +%s) - $1))")"
}
