package desired_test

import (
	"testing"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
)

// A value is quoted so that the server reads what the user wrote.
func TestSettingsAreQuoted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		engine v1.Engine
		want   string
	}{
		{v1.PostgreSQL, `a = 'it\\''s C:\\new\\'` + "\n"},
		{v1.MariaDB, "[mysqld]\n" + `a = "it\\'s C:\\new\\"` + "\n"},
	} {
		db := &v1.Database{Spec: v1.DatabaseSpec{
			Engine: c.engine, Configuration: map[string]v1.Setting{"a": `it\'s C:\new` + `\`},
		}}
		if got := desired.Settings(db); got != c.want {
			t.Errorf("%s: %s, want %s", c.engine, got, c.want)
		}
	}
}
