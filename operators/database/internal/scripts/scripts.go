// Package scripts embeds the shell scripts of the database containers. They run in the official images of the servers as an
// unprivileged user. The comment of each file lists its environment variables and its guarantees:
//
//	init.sh     creates the data directory of a member atomically
//	run.sh      starts the server of a member
//	probe.sh    implements the startup, liveness and readiness probes
//	dump.sh     writes a dump and verifies it
//	restore.sh  creates the data directory of the primary from a dump atomically
//	prune.sh    deletes dumps and lists the remaining ones
//
// The tests run all scripts against PostgreSQL and MariaDB. MySQL shares the scripts of MariaDB except for names, init.sh
// and run.sh. These two were written from its manual and are tested with MariaDB in its place, never with MySQL itself.
package scripts

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
)

//go:embed */*.sh
var files embed.FS

// folders lists the folders of each engine's scripts. Files of a later folder override those of an earlier one.
var folders = map[string][]string{
	"postgresql": {"shared", "postgresql"},
	"mariadb":    {"shared", "mariadb"},
	"mysql":      {"shared", "mariadb", "mysql"},
}

// Of returns the scripts of an engine by file name, for one directory. It returns an error if the engine has none.
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
