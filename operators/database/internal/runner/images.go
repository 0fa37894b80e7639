//go:build linux

package runner

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// An image has the settings of a Dockerfile that a pod does not repeat.
type image struct {
	user string // its ID is imageUser
	stop unix.Signal
}

// imageUser is the user and group ID of the server in all images below.
const imageUser = 999

// images maps the last part of the name of an official image to its settings.
var images = map[string]image{
	"postgres": {user: "postgres", stop: unix.SIGINT},
	"mysql":    {user: "mysql", stop: unix.SIGTERM},
	"mariadb":  {user: "mysql", stop: unix.SIGTERM},
}

// imageOf returns the image of a reference such as docker.io/library/postgres:16.
func imageOf(reference string) image {
	name, _, _ := strings.Cut(path.Base(reference), "@")
	name, _, _ = strings.Cut(name, ":")
	if known, ok := images[name]; ok {
		return known
	}
	return image{user: "app", stop: unix.SIGTERM}
}

// emptied maps directories to their modes. Images do not have the machine's contents of them.
var emptied = map[string]os.FileMode{
	"tmp": 0o777 | os.ModeSticky, "run": 0o755, "mnt": 0o755, "root": 0o700, "home": 0o755, "sys": 0o755,
	"etc/mysql": 0o755, "etc/postgresql": 0o755,
	"var/tmp": 0o777 | os.ModeSticky, "var/lib/postgresql": 0o755, "var/lib/mysql": 0o755,
}

// owned lists the directories that belong to the user of an image.
var owned = []string{"run/postgresql", "run/mysqld", "var/lib/postgresql/data", "var/lib/mysql"}

// prepareLayer fills the layer above the machine's file system with the contents of an image.
func (i image) prepareLayer(layer string) error {
	var errs []error
	for dir, mode := range emptied {
		dir = filepath.Join(layer, dir)
		errs = append(errs, makePublicDir(dir), os.Chmod(dir, mode), unix.Setxattr(dir, "trusted.overlay.opaque", []byte("y"), 0))
	}
	for _, dir := range owned {
		dir = filepath.Join(layer, dir)
		errs = append(errs, makePublicDir(dir), os.Chown(dir, imageUser, imageUser))
	}
	for name, text := range map[string]string{
		"passwd":        fmt.Sprintf("root:x:0:0::/root:/bin/sh\n%[1]s:x:%[2]d:%[2]d::/:/bin/sh\n", i.user, imageUser),
		"group":         fmt.Sprintf("root:x:0:\n%s:x:%d:\n", i.user, imageUser),
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
		"resolv.conf":   "",
	} {
		errs = append(errs, os.WriteFile(filepath.Join(layer, "etc", name), []byte(text), 0o644)) //nolint:gosec // not a secret
	}
	errs = append(errs, os.Symlink(etc+"/hosts", layer+"/etc/hosts"))
	return errors.Join(errs...)
}

// Path returns the value of PATH in containers: the usual directories, and that of Debian's PostgreSQL.
func Path() string {
	const usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin"); len(found) > 0 {
		return found[len(found)-1] + ":" + usual
	}
	return usual
}
