#!/usr/bin/env bash
# Writes a dump of the database into a file, reads it back, and only then gives it its name and lets older ones go: what has the
# name of a dump can be restored. It is told, beside what lib.sh says, by
#   HOST, PORT  the server; a replica will do
#   BACKUPS     the directory of the dumps
#   NAME        the name of this one, without .dump; names sort by age
#   KEEP        how many dumps stay, this one among them; at least 1
# What came of it is told as one line of JSON in the termination log.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

final=$BACKUPS/$NAME.dump
partial=$final.partial
began=$(date +%s)

[ "$KEEP" -ge 1 ] || give_up "KEEP is $KEEP: the last good dump would go"
if [ -e "$final" ]; then
  say "$final is there already: an earlier attempt got that far"
else
  # Whoever died before left this; nobody else writes here, because runs do not overlap.
  find "$BACKUPS" -maxdepth 1 -name '*.partial' -delete
  PGPASSWORD=$(<"$CREDENTIALS/password")
  export PGPASSWORD
  pg_dump --host="$HOST" --port="$PORT" --username="$DATABASE_USER" --no-password --format=custom --file="$partial" "$DATABASE" ||
    give_up "pg_dump failed; older dumps stay"
  # The list of contents is at the beginning: only who reads all of it knows that the end is there.
  pg_restore --file=/dev/null "$partial" || give_up "the dump cannot be read back; older dumps stay"
  sync "$partial"
  (cd "$BACKUPS" && sha256sum "$NAME.dump.partial" | sed "s/ .*/  $NAME.dump/" >"$NAME.sha256")
  sync "$BACKUPS/$NAME.sha256"
  mv -T "$partial" "$final"
  sync "$BACKUPS"
fi

# Only what is complete counts, and there is at least this one.
find "$BACKUPS" -maxdepth 1 -name '*.dump' -printf '%f\n' | sort -r | tail -n "+$((KEEP + 1))" | while read -r old; do
  rm -f "$BACKUPS/$old" "$BACKUPS/${old%.dump}.sha256"
done

read -r sum _ <"$BACKUPS/$NAME.sha256"
printf '{"name":"%s","sizeBytes":%d,"sha256":"%s","seconds":%d,"serverVersion":"%s"}\n' "$NAME" "$(stat -c %s "$final")" "$sum" \
  "$(($(date +%s) - began))" "$(pg_restore --list "$final" | sed -n 's/^;  *Dumped from database version: \([^ ]*\).*/\1/p')" |
  tee "${TERMINATION_LOG:-/dev/termination-log}"
