# shellcheck shell=bash disable=SC2034 # lib.sh and those that read it use these
# Names that differ between MariaDB and MySQL.
PRODUCT=MariaDB SERVER=mariadbd CLIENT=mariadb DUMP=mariadb-dump ADMIN=mariadb-admin
local_options=(--skip-ssl)
dump_options=()

# accounts are the tables of the database mysql with the users and roles, their hashes and privileges; registers those with
# memberships of roles, and with plugins, functions and foreign servers. Builtin accounts are those of each server.
accounts=(global_priv db tables_priv columns_priv procs_priv proxies_priv)
registers=(roles_mapping func plugin servers)
builtin="'root', 'mysql', 'mariadb.sys'"

# install creates a data directory in $1. Root has no password and can connect over the socket only.
install() {
  local log
  log=$({
    mariadb-install-db --no-defaults --datadir="$1" --auth-root-authentication-method=normal --skip-test-db \
      --skip-name-resolve && "$SERVER" --no-defaults --bootstrap --datadir="$1" <<-SQL
	DELETE FROM mysql.global_priv WHERE User = 'root' AND Host <> 'localhost';
	DELETE FROM mysql.proxies_priv;
	SQL
  } 2>&1) || {
    say "$log"
    return 1
  }
}
