package realnodes_test

import v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"

// An engine has the differences between the servers from a user's view. Scripts have the variables of the client.
type engine struct {
	name    v1.Engine
	version string   // that of the image
	remote  string   // runs the statements of the argument in a new connection
	session string   // runs the statements of the standard input in one connection
	local   []string // runs the statements of the last argument as the superuser, over the socket
	table   string   // creates the empty table of orders
	fill    string   // inserts the orders from %s to %s
	filler  string   // inserts some MB into the table filler
	sum     string   // returns the number of orders and a checksum
	replica string   // returns 1 on a replica
	more    []string // statements that the superuser runs, for objects beside those of the application
	moreSum string   // returns "3 billing" if they exist
}

const (
	psql = `PGPASSWORD=$PASSWORD psql --no-psqlrc -v ON_ERROR_STOP=1 -h "$HOST" -p "$PORT" ` +
		`-U "$USERNAME" -d "$DATABASE" -qtA`
	mariadb = `MYSQL_PWD=$PASSWORD mariadb --no-defaults -h "$HOST" -P "$PORT" ` +
		`-u "$USERNAME" -D "$DATABASE" -BN`
)

var engines = []engine{
	{
		name: v1.PostgreSQL, version: "15",
		remote: psql + `c "$1"`, session: psql,
		local:   []string{"psql", "--no-psqlrc", "-h", "/run/database", "-U", "postgres", "-d", "app", "-qtAc"},
		table:   "CREATE TABLE orders (id bigint PRIMARY KEY, text text)",
		fill:    "INSERT INTO orders SELECT i, md5(i::text) FROM generate_series(%s, %s) AS i",
		filler:  "INSERT INTO filler SELECT md5(random()::text) FROM generate_series(1, 200000)",
		sum:     "SELECT count(*) || ' ' || md5(string_agg(id || ':' || text, ',' ORDER BY id)) FROM orders",
		replica: "SELECT pg_is_in_recovery()::int",
		more: []string{
			"CREATE ROLE billing LOGIN PASSWORD 'x' CONNECTION LIMIT 3", "CREATE DATABASE billing OWNER billing",
			"CREATE ROLE reader IN ROLE billing", "ALTER ROLE reader SET work_mem = '3MB'",
		},
		moreSum: "SELECT rolconnlimit || ' ' || datname FROM pg_database JOIN pg_roles r ON r.oid = datdba " +
			"WHERE rolname = 'billing' AND pg_has_role('reader', 'billing', 'MEMBER')",
	},
	{
		name: v1.MariaDB, version: "10.11",
		remote: mariadb + `e "$1"`, session: mariadb + " --unbuffered",
		local:   []string{"mariadb", "--no-defaults", "--socket=/run/database/server.sock", "-u", "root", "-D", "app", "-BNe"},
		table:   "CREATE TABLE orders (id bigint PRIMARY KEY, text text)",
		fill:    "INSERT INTO orders SELECT seq, md5(seq) FROM seq_1_to_1000 WHERE seq BETWEEN %s AND %s",
		filler:  "INSERT INTO filler SELECT MD5(RAND()) FROM seq_1_to_200000",
		sum:     "SELECT CONCAT(COUNT(*), ' ', MD5(GROUP_CONCAT(id, ':', text ORDER BY id))) FROM orders",
		replica: "SELECT @@read_only",
		more: []string{
			"CREATE DATABASE billing", "CREATE TABLE billing.t AS SELECT seq FROM seq_1_to_3",
			"CREATE USER billing IDENTIFIED BY 'x'", "GRANT ALL ON billing.* TO billing", "CREATE ROLE reader",
		},
		moreSum: "SELECT CONCAT(COUNT(*), ' ', (SELECT REGEXP_SUBSTR(GRANTEE, '[a-z]+') " +
			"FROM information_schema.SCHEMA_PRIVILEGES WHERE TABLE_SCHEMA = 'billing' LIMIT 1)) FROM billing.t",
	},
}
