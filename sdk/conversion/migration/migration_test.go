package migration

import (
	"strings"
	"testing"
)

func TestInvalidMigrators(t *testing.T) {
	for want, m := range map[string]Migrator{
		"field CRDs is empty":                           {},
		`"teams" is no name`:                            {CRDs: []string{"teams"}},
		"teams.example.com is in field CRDs twice":      {CRDs: []string{"teams.example.com", "teams.example.com"}},
		"field PerSecond is -1: give a positive number": {CRDs: []string{"teams.example.com"}, PerSecond: -1},
	} {
		if err := m.SetupWithManager(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, not %s", err, want)
		}
	}
}
