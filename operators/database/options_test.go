package database_test

import (
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
)

func TestImageRegistry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ registry, template, want string }{
		{"", "", "postgres:16"},
		{"mirror.example", "", "mirror.example/postgres:16"},
		{"mirror.example:5000/library/", "", "mirror.example:5000/library/postgres:16"},
		{"mirror.example", "{{.Engine}}-{{.Version}}:v1", "mirror.example/postgresql-16:v1"},
	} {
		o := database.Options{ImageRegistry: c.registry, ImageTemplate: c.template}
		if got, err := o.Image(v1.PostgreSQL, "16"); err != nil || got != c.want {
			t.Errorf("%+v: the image is %q, %v", c, got, err)
		}
	}
	o := database.Options{ImageRegistry: "mirror example"}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "--image-registry") {
		t.Errorf("a registry with a blank: %v", err)
	}
	o = database.Options{MaxUpgrading: -1}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "--max-upgrading") {
		t.Errorf("a negative number: %v", err)
	}
}
