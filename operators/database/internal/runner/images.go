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

// An image is what a container has to know of its image, because it is in the Dockerfile and not in the pod.
type image struct {
	user string // whose id is imageUser
	stop unix.Signal
}

// imageUser is the id of the server's user, and of its group, in all the images below.
const imageUser = 999

// images are the official ones, by the last part of their names.
var images = map[string]image{
	"postgres": {user: "postgres", stop: unix.SIGINT},
	"mysql":    {user: "mysql", stop: unix.SIGTERM},
	"mariadb":  {user: "mysql", stop: unix.SIGTERM},
}

// imageOf finds the image of a reference such as docker.io/library/postgres:16.
func imageOf(reference string) image {
	name, _, _ := strings.Cut(path.Base(reference), "@")
	name, _, _ = strings.Cut(name, ":")
	if known, ok := images[name]; ok {
		return known
	}
	return image{user: "app", stop: unix.SIGTERM}
}

// emptied are the directories whose contents on this machine are no part of an image, with their modes.
var emptied = map[string]os.FileMode{
	"tmp": 0o777 | os.ModeSticky, "run": 0o755, "mnt": 0o755, "root": 0o700, "home": 0o755, "sys": 0o755,
	"etc/mysql": 0o755, "etc/postgresql": 0o755,
	"var/tmp": 0o777 | os.ModeSticky, "var/lib/postgresql": 0o755, "var/lib/mysql": 0o755,
}

// owned are the directories that images give to their user.
var owned = []string{"run/postgresql", "run/mysqld", "var/lib/postgresql/data", "var/lib/mysql"}

// paint makes of a layer over the machine's file system what an image has.
func (i image) paint(layer string) error {
	var errs []error
	for dir, mode := range emptied {
		dir = filepath.Join(layer, dir)
		errs = append(errs, public(dir), os.Chmod(dir, mode), unix.Setxattr(dir, "trusted.overlay.opaque", []byte("y"), 0))
	}
	for _, dir := range owned {
		dir = filepath.Join(layer, dir)
		errs = append(errs, public(dir), os.Chown(dir, imageUser, imageUser))
	}
	for name, text := range map[string]string{
		"passwd":        fmt.Sprintf("root:x:0:0::/root:/bin/sh\n%[1]s:x:%[2]d:%[2]d::/:/bin/sh\n", i.user, imageUser),
		"group":         fmt.Sprintf("root:x:0:\n%s:x:%d:\n", i.user, imageUser),
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
		"resolv.conf":   "",
	} {
		errs = append(errs, os.WriteFile(filepath.Join(layer, "etc", name), []byte(text), 0o644)) //nolint:gosec // everybody reads it
	}
	errs = append(errs, os.Symlink(etc+"/hosts", layer+"/etc/hosts"))
	return errors.Join(errs...)
}

// Path is where programs are, as in PATH: where images have them, and where Debian keeps those of PostgreSQL.
func Path() string {
	const usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin"); len(found) > 0 {
		return found[len(found)-1] + ":" + usual
	}
	return usual
}
