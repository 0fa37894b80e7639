# shellcheck shell=bash disable=SC2034 # lib.sh and those that read it use these
# Names that differ between MySQL and MariaDB.
PRODUCT=MySQL SERVER=mysqld CLIENT=mysql DUMP=mysqldump ADMIN=mysqladmin
local_options=(--loose-ssl-mode=DISABLED)
dump_options=(--loose-set-gtid-purged=OFF)
accounts=(user db tables_priv columns_priv procs_priv proxies_priv global_grants default_roles password_history)
registers=(role_edges func plugin servers component)
builtin="'root', 'mysql.sys', 'mysql.session', 'mysql.infoschema'"

# install creates a data directory in $1. Root has no password and can connect over the socket only.
install() { mysqld --no-defaults --initialize-insecure --datadir="$1"; }
