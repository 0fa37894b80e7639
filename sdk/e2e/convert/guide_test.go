package convert

import (
	"testing"
)

func documented(t *testing.T, line string) { t.Log(line) }
