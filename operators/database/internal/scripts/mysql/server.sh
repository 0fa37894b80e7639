# shellcheck shell=bash disable=SC2034 # lib.sh and those that read it use these
# What MySQL and MariaDB have other names for.
PRODUCT=MySQL SERVER=mysqld CLIENT=mysql DUMP=mysqldump ADMIN=mysqladmin
local_options=(--loose-ssl-mode=DISABLED)
dump_options=(--loose-set-gtid-purged=OFF)

# install makes a new data directory in $1; root has no password and gets in over the socket.
install() { mysqld --no-defaults --initialize-insecure --datadir="$1"; }
