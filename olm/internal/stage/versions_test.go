package stage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/olm/internal/stage"
)

// Upgrades begin with the last version that was released before the one of now, by number.
func TestVersions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		released []string
		now      string
		want     string // the versions, or the error
	}{
		"the first":           {[]string{"v0.1.0"}, "0.2.0", "{0.1.0 0.2.0 0.3.0 0.3.1}"},
		"ten is more than 9":  {[]string{"v0.10.0", "v0.9.0"}, "0.10.1", "{0.10.0 0.10.1 0.11.0 0.11.1}"},
		"released already":    {[]string{"v0.1.0", "v0.2.0"}, "0.2.0", "{0.1.0 0.2.0 0.3.0 0.3.1}"},
		"a candidate":         {[]string{"v0.1.0"}, "0.2.0-rc.1", "{0.1.0 0.2.0-rc.1 0.3.0 0.3.1}"},
		"older than released": {[]string{"v0.3.0"}, "0.2.0", "there is no bundle to begin with"},
		"no version":          {[]string{"vlatest"}, "0.2.0", "vlatest: "},
		"nothing released":    {nil, "0.2.0", "there is no bundle to begin with"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			released, current := t.TempDir(), t.TempDir()
			for _, version := range c.released {
				if err := os.MkdirAll(filepath.Join(released, "database", version), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			dir := filepath.Join(current, "database", "manifests")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			csv := "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n" +
				"metadata: {name: database-operator.v" + c.now + "}\nspec: {version: " + c.now + "}\n"
			file := filepath.Join(dir, "database-operator.clusterserviceversion.yaml")
			if err := os.WriteFile(file, []byte(csv), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := stage.NewVersions(released, current)
			if text := fmt.Sprint(got) + fmt.Sprint(err); !strings.Contains(text, c.want) {
				t.Errorf("%v, %v; want %s", got, err, c.want)
			}
		})
	}
}
