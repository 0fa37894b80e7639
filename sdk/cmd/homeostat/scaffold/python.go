package scaffold

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// The languages of operators.
const (
	languageGo     = "go"
	languagePython = "python"
)

func checkLanguage(r request) error {
	switch {
	case r.language != languageGo && r.language != languagePython && r.language != "":
		return usageErrorf("--language %q will not do: choose %s or %s", r.language, languageGo, languagePython)
	case r.language == languagePython && r.module != "":
		return usageErrorf("--module is for operators in Go: leave it out")
	}
	return nil
}

// pythonFiles returns the files of an operator in Python. Its manifests and its catalog are those of an operator in Go.
func (op *operator) pythonFiles() (map[string][]byte, error) {
	files, err := renderSets(op, op, "operator", "kind", "outside")
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(files, func(name string, _ []byte) bool {
		return !strings.HasPrefix(name, "config/") && !strings.HasPrefix(name, "olm/") || path.Ext(name) == ".go"
	})
	return files, renderSet("templates/python", op, op, files)
}

// createPython writes the project atomically: after an error nothing is written. The checkout is named in local.mk.
func createPython(_ context.Context, op *operator, at location) (err error) {
	files, err := op.files()
	if err != nil {
		return err
	}
	if at.homeostat != "" {
		files["local.mk"] = localMake(at.homeostat)
	}
	draft, err := os.MkdirTemp(filepath.Dir(at.dir), "."+op.Name+"-*")
	if err != nil {
		return fmt.Errorf("writing the project: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(draft)) }()
	if err := errors.Join(os.Chmod(draft, folderMode), writeFiles(draft, files), os.Rename(draft, at.dir)); err != nil {
		return fmt.Errorf("writing the project: %w", err)
	}
	return nil
}
