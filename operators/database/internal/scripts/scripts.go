// Package scripts holds the shell that runs in the containers of databases, in the official images of their servers and as
// an unprivileged user. Each file says what it is told by its environment, and what it promises:
//
//	init.sh     makes the data directory of a member, wholly or not at all
//	run.sh      becomes the server of a member
//	probe.sh    tells the kubelet how the member is: startup, live or ready
//	dump.sh     writes a dump and verifies it
//	restore.sh  puts a dump into an empty database, wholly or not at all
//	prune.sh    deletes dumps and tells which are left
//
// The tests run all of them against PostgreSQL and MariaDB. Those of MySQL are the ones of MariaDB, but for names and for
// init.sh and run.sh, which were written after its manual: they are run with MariaDB in its place, and never met MySQL.
package scripts

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
)

//go:embed */*.sh
var files embed.FS

// folders says, for each engine, which folders its scripts come from. A later one replaces what an earlier one has.
var folders = map[string][]string{
	"postgresql": {"shared", "postgresql"},
	"mariadb":    {"shared", "mariadb"},
	"mysql":      {"shared", "mariadb", "mysql"},
}

// Of returns the scripts of an engine by their names, for one directory that has all of them. The error is that of an engine
// that has none.
func Of(engine string) (map[string]string, error) {
	if folders[engine] == nil {
		return nil, fmt.Errorf("engine %q has no scripts", engine)
	}
	all := map[string]string{}
	for _, folder := range folders[engine] {
		entries, err := fs.ReadDir(files, folder)
		if err != nil {
			return nil, fmt.Errorf("listing the scripts of %s: %w", engine, err)
		}
		for _, e := range entries {
			text, err := fs.ReadFile(files, path.Join(folder, e.Name()))
			if err != nil {
				return nil, fmt.Errorf("reading a script of %s: %w", engine, err)
			}
			all[e.Name()] = string(text)
		}
	}
	return all, nil
}
