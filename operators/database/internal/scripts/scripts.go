// Package scripts holds the shell that runs in the containers of databases. Each file says what it is told by its environment.
package scripts

import (
	"embed"
	"io/fs"
	"path"
)

//go:embed */*.sh
var files embed.FS

// Of returns the scripts of an engine, by their names. The error is that of an engine that has none.
func Of(engine string) (map[string]string, error) {
	entries, err := fs.ReadDir(files, engine)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := fs.ReadFile(files, path.Join(engine, e.Name()))
		if err != nil {
			return nil, err
		}
		all[e.Name()] = string(text)
	}
	return all, nil
}
