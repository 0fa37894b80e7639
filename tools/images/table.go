package main

import (
	_ "embed"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/homeostat-dev/homeostat/tools/images/deb"
)

// A baseImage describes an image of Debian packages. It behaves like the official image of its name as far as the operators
// and their samples depend on it. It has no entry point that initializes data: the operators bring their own commands.
type baseImage struct {
	name string
	// tags are those that samples and templates name, after that of Debian's version. A tag that is not the beginning of
	// that version is a stand-in: the program is another version than the tag says.
	tags     []string
	packages []string // the first one has the version; empty for an image without packages
	alone    bool     // has no common layer
	exclude  []string // parts of the packages
	users    []account
	entries  []deb.Entry
	config   v1.Config
}

// An account has a group of the same name and number.
type account struct {
	name string
	id   int
	home string
}

// common are the packages of the layer that images share: those with the shell and the tools that the operators' scripts
// use, and libraries that most servers need.
var common = []string{
	"base-files", "bash", "coreutils", "dash", "debianutils", "diffutils", "findutils", "grep", "gzip", "hostname", "libc-bin",
	"libssl3", "mawk", "ncurses-base", "sed", "tar", "tzdata", "util-linux",
}

// assumed are packages that are left out although others depend on them.
var assumed = []string{
	// For scripts of packages, which are not run.
	"adduser", "debconf", "dpkg", "init-system-helpers", "lsb-base", "passwd", "sysvinit-utils", "ucf", "usrmerge",
	// For programs in Perl that the images do not need: the wrappers of Debian would hide PostgreSQL's own programs.
	"libconfig-inifiles-perl", "libdbi-perl", "libjson-perl", "perl", "postgresql-client-common", "postgresql-common",
	// For features that no operator uses: clusters of MariaDB, just-in-time compilation, generated certificates and locales.
	"galera-4", "iproute2", "libllvm14", "locales", "lsof", "psmisc", "procps", "rsync", "socat", "ssl-cert",
	// Configuration of servers on a host, and of interactive editing. Without it the servers have their own defaults.
	"mariadb-common", "mysql-common", "netbase", "readline-common", "sensible-utils", "util-linux-extra",
	"gawk", // mawk is there
}

const (
	usualPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	locale    = "LANG=C.UTF-8"
)

// server is the number of the database servers' user in the official images.
const server = 999

// baseImages is the table of images, in the order of the output.
var baseImages = []baseImage{
	{
		name: "postgres", tags: []string{"15", "16"}, packages: []string{"postgresql-15"},
		// Without this library, and without an error, the server compiles no queries.
		exclude: []string{
			"usr/lib/postgresql/15/lib/bitcode", "usr/lib/postgresql/15/lib/llvmjit.so",
			"usr/lib/postgresql/15/lib/llvmjit_types.bc", "usr/share/postgresql/15/man",
		},
		users: []account{{"postgres", server, "/var/lib/postgresql"}},
		entries: []deb.Entry{
			{Path: "var/lib/postgresql", Mode: 0o1777, Owner: server},
			{Path: "var/lib/postgresql/data", Mode: 0o1777, Owner: server},
			{Path: "run/postgresql", Mode: 0o3777, Owner: server},
		},
		config: v1.Config{
			User: "999:999", Cmd: []string{"postgres"}, StopSignal: "SIGINT", ExposedPorts: map[string]struct{}{"5432/tcp": {}},
			Env: []string{usualPath + ":/usr/lib/postgresql/15/bin", locale, "PG_MAJOR=15", "PGDATA=/var/lib/postgresql/data"},
		},
	},
	{
		name: "mariadb", tags: []string{"10.11"}, packages: []string{"mariadb-server"},
		// Tools for files of tables, of 5 MB each.
		exclude: []string{
			"usr/bin/aria_chk", "usr/bin/aria_dump_log", "usr/bin/aria_ftdump", "usr/bin/aria_pack", "usr/bin/aria_read_log",
			"usr/bin/innochecksum", "usr/bin/myisam_ftdump", "usr/bin/myisamchk", "usr/bin/myisamlog", "usr/bin/myisampack",
			"usr/bin/perror",
		},
		users: []account{{"mysql", server, "/var/lib/mysql"}},
		entries: []deb.Entry{
			{Path: "var/lib/mysql", Mode: 0o1777, Owner: server},
			{Path: "run/mysqld", Mode: 0o1777, Owner: server},
		},
		config: v1.Config{
			User: "999:999", Cmd: []string{"mariadbd"}, ExposedPorts: map[string]struct{}{"3306/tcp": {}},
			Env: []string{usualPath, locale},
		},
	},
	{
		name: "nginx", tags: []string{"1.22", "1.21", "1.29", "latest"}, packages: []string{"nginx"},
		users: []account{{"nginx", 101, "/nonexistent"}},
		entries: []deb.Entry{
			{Path: "etc/nginx/nginx.conf", Data: nginxConf},
			{Path: "etc/nginx/conf.d/default.conf", Data: nginxSite},
			{Path: "var/cache/nginx"},
			{Path: "var/lib/nginx", Target: "/var/cache/nginx"}, // the folder that Debian's program has compiled in
			{Path: "var/log/nginx/access.log", Target: "/dev/stdout"},
			{Path: "var/log/nginx/error.log", Target: "/dev/stderr"},
		},
		config: v1.Config{
			Cmd: []string{"nginx", "-g", "daemon off;"}, StopSignal: "SIGQUIT", Env: []string{usualPath},
			ExposedPorts: map[string]struct{}{"80/tcp": {}},
		},
	},
	{
		name: "python", tags: []string{"3.11", "3-slim"}, packages: []string{"python3"},
		entries: []deb.Entry{
			{Path: "usr/local/bin/python", Target: "/usr/bin/python3"},
			{Path: "usr/local/bin/python3", Target: "/usr/bin/python3"},
		},
		config: v1.Config{Cmd: []string{"python3"}, Env: []string{usualPath, locale}},
	},
	{
		name: "busybox", tags: []string{"1.35", "latest"}, packages: []string{"busybox-static"}, alone: true,
		config: v1.Config{Cmd: []string{"sh"}, Env: []string{usualPath}},
	},
	{name: "pause", tags: []string{"1"}, alone: true, config: v1.Config{
		User: "65535:65535", Entrypoint: []string{"/pause"}, Env: []string{usualPath},
	}},
}

// Files of the images: the accounts of Debian's base system, and the settings of the official image of nginx.
var (
	//go:embed files/passwd
	passwd string
	//go:embed files/group
	groups string
	//go:embed files/nginx.conf
	nginxConf string
	//go:embed files/default.conf
	nginxSite string
)

// skeleton returns what an installed system has and no package contains.
func skeleton() []deb.Entry {
	return []deb.Entry{
		{Path: "run/lock", Mode: 0o1777},
		{Path: "tmp", Mode: 0o1777},
		{Path: "var/tmp", Mode: 0o1777},
		{Path: "root", Mode: 0o700},
		{Path: "dev"},
		{Path: "proc"},
		{Path: "sys"},
		{Path: "etc/nsswitch.conf", Data: "passwd: files\ngroup: files\nhosts: files dns\n"},
		{Path: certificates, Data: string(rootCertificates())},
	}
}

// alternatives are links that scripts of packages make.
var alternatives = []deb.Entry{
	{Path: "usr/bin/awk", Target: "mawk"},
	{Path: "usr/bin/which", Target: "which.debianutils"},
}

// allPackages returns the packages to resolve for the image.
func (b baseImage) allPackages() []string {
	if b.alone {
		return b.packages
	}
	return slices.Concat(common, b.packages)
}
