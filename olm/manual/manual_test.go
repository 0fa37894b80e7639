package manual_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/build"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/olm/internal/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

const (
	root = "../.."
	page = root + "/docs/install.md"
	// samples is the folder with the samples of Databases, below root.
	samples = "operators/database/config/samples/"
	// elsewhere is another registry than the one in the page.
	elsewhere = "127.0.0.1:5000/team/"
)

func TestMain(m *testing.M) {
	testkit.RunHelperProcess() // from another folder
	if err := build.All(context.Background(), root, func(line string) { log.Print(line) }); err != nil {
		log.Fatal(err)
	}
	objects, err := v1.Objects(context.Background(), root+"/olm/programs/v1")
	if err != nil {
		log.Fatal(err)
	}
	testkit.Main(m, testkit.Env{
		Workloads: true, Private: true, Objects: append(objects, v0.Objects()...), AddToScheme: v0.AddToScheme,
	})
}

// The sections about manifests and Helm work on an empty cluster.
func TestWithoutOLM(t *testing.T) {
	t.Parallel()
	r := newReader(t, testkit.Private())
	r.follow("Images")
	r.shell.Env = append(r.shell.Env, "REGISTRY="+elsewhere)
	r.follow("Manifests")
	r.checkUnchanged()
	r.checkFails(r.read("Helm")[0], "invalid ownership metadata") // because of the existing definitions
	r.cleanUp()
	r.follow("Helm")
	r.checkUnchanged()
	r.checkPulled("database:0.2.0")
	r.checkPulled("myapp:0.2.0")
}

// The section about OLM v0 works where OLM v0 runs, also after an incompatible version was published.
func TestV0(t *testing.T) {
	t.Parallel()
	further := map[string]string{
		"homeostat/database-bundle:v0.3.0": newVersion(t, "0.3.0", addRequiredField),
		"homeostat/database-bundle:v0.3.1": newVersion(t, "0.3.1", nil),
	}
	find := func(image string) (string, error) {
		if dir := further[image]; dir != "" {
			return dir, nil
		}
		return find(image)
	}
	r := newReader(t)
	lifecycle, err := v0.Start(t.Context(), r.k.Config, v0.Options{
		Programs: root + "/olm/programs", Bundles: find, Dir: t.TempDir(), Notice: func(line string) { t.Log(line) },
		PlanTimeout: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lifecycle.Stop)
	end := func() {}
	offer := func(versions ...string) {
		t.Helper()
		end()
		address, stop, err := v0.Serve(t.Context(), catalog(t, find, versions...), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		end = stop
		lifecycle.Route("homeostat.olm.svc:50051", address)
	}
	newer := func(version string) {
		t.Helper()
		offer(version)
		source := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: "homeostat", Namespace: v0.Namespace}}
		r.k.Update(source, func() { source.Spec.Image = elsewhere + "catalog:v" + version })
	}
	offer()
	r.follow("Images")
	r.shell.Env = append(r.shell.Env, "REGISTRY="+elsewhere)
	r.follow("OLM v0")
	r.checkPulled("catalog:latest")
	if r.programs[elsewhere+"catalog:latest"] {
		t.Error("OLM runs the image of the catalog, which has no program")
	}

	newer("0.3.0")
	const broken = "A version that does not fit your objects"
	commands := r.read(broken)
	repair := slices.IndexFunc(commands, func(command string) bool { return strings.HasPrefix(command, "until ") })
	said := r.run(broken, commands[:repair])
	if want := `"default/orders-db": updated validation is too restrictive: [].spec.tenant`; !strings.Contains(said, want) {
		t.Errorf("of a version that does not fit is said %q, want %q", said, want)
	}
	newer("0.3.1")
	r.run(broken, commands[repair:])
	r.checkUnchanged()
	r.follow("Removing the operator from OLM v0")
	r.checkUnchanged()
}

// The section about OLM v1 works where OLM v1 runs. No object is lost without having been deleted by the user.
func TestV1(t *testing.T) {
	t.Parallel()
	r := newReader(t, testkit.Private())
	lifecycle, err := v1.Start(t.Context(), r.k.Config, v1.Options{
		Programs: root + "/olm/programs/v1", Dir: t.TempDir(), Notice: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lifecycle.Stop)
	catalogs := map[string]*declcfg.DeclarativeConfig{"database": catalog(t, find)}
	if _, err := lifecycle.Publish(t.Context(), catalogs, find, "latest"); err != nil {
		t.Fatal(err)
	}
	r.follow("Images")
	r.run("OLM v1", []string{"kubectl create --filename operators/database/config/crd/techoral.com_databases.yaml"})
	commands := r.read("OLM v1")
	installed := slices.IndexFunc(commands, func(c string) bool { return strings.Contains(c, "condition=Installed") })
	r.run("OLM v1", append(commands[:installed:installed],
		`until kubectl get clusterextension --output yaml | grep "'databases.techoral.com' already exists"; do sleep 1; done`,
		"kubectl delete crd databases.techoral.com"))
	r.run("OLM v1", commands[installed:])

	const removing = "Removing the operator from OLM v1"
	commands = r.read(removing)
	remove, last := commands[0], commands[len(commands)-1]
	r.run(removing, []string{
		"kubectl create namespace blog",
		"sed 's/namespace: .*/namespace: blog/; s/^spec:/&\\n  deletionProtection: true/' " + samples +
			"example.yaml | kubectl apply --filename -",
		"sed 's/namespace: .*/namespace: blog/' " + samples + "snapshot.yaml | kubectl apply --filename -",
		"kubectl wait database/orders-db --namespace blog --for jsonpath='{.status.state}'=Ready --timeout 3m",
	})
	r.checkFails(last, "") // as long as there are objects
	r.checkFails(strings.Replace(remove, "--timeout 5m", "--timeout 5s", 1), "timed out")
	r.checkFails(last, "") // also while they are being deleted
	said := r.run(removing, []string{"kubectl get databases --all-namespaces --output jsonpath='{.items[*].status}'"})
	if !strings.Contains(said, "DeletionProtected") {
		t.Errorf("a Database that is held says %s", said)
	}
	r.run(removing, append([]string{
		`kubectl patch database/orders-db --namespace blog --type merge --patch '{"spec": {"deletionProtection": false}}'`,
	}, commands...))
	for _, name := range definitions {
		r.k.Eventually(definition(name), testkit.Gone())
	}
	after := r.uids()
	for name, uid := range r.children {
		if strings.HasPrefix(name, "PersistentVolumeClaim ") && after[name] != uid {
			t.Errorf("%s is gone, which the page says is kept", name)
		}
	}
}

// find finds the bundles of the repository.
var find = olm.BundlesIn(root+"/olm/released", root+"/bundle")

// catalog returns the catalog of Databases, with further versions.
func catalog(t *testing.T, find olm.Bundles, versions ...string) *declcfg.DeclarativeConfig {
	t.Helper()
	template, err := os.ReadFile(root + "/olm/templates/database.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		template = fmt.Appendf(template, "    - image: homeostat/database-bundle:v%s\n", version)
	}
	file := filepath.Join(t.TempDir(), "database.yaml")
	if err := os.WriteFile(file, template, 0o600); err != nil {
		t.Fatal(err)
	}
	catalog, err := olm.Render(t.Context(), file, find, olm.Published)
	if err != nil {
		t.Fatal(err)
	}
	return catalog
}

// newVersion returns a folder with the bundle of Databases as another version, and with changed definitions if change is
// given.
func newVersion(t *testing.T, version string, change func(*apiextensionsv1.JSONSchemaProps)) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(root+"/bundle/database")); err != nil {
		t.Fatal(err)
	}
	rewrite := func(name string, with func(data []byte) ([]byte, error)) {
		file := filepath.Join(dir, "manifests", name)
		data, err := os.ReadFile(file)
		if err == nil {
			data, err = with(data)
		}
		if err := errors.Join(err, os.WriteFile(file, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	rewrite("database-operator.clusterserviceversion.yaml", func(data []byte) ([]byte, error) {
		return bytes.ReplaceAll(data, []byte("0.2.0"), []byte(version)), nil
	})
	if change != nil {
		rewrite("techoral.com_databases.yaml", func(data []byte) ([]byte, error) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(data, crd); err != nil {
				return nil, err
			}
			change(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
			return yaml.Marshal(crd)
		})
	}
	return dir
}

// addRequiredField adds a required field that no object has.
func addRequiredField(schema *apiextensionsv1.JSONSchemaProps) {
	spec := schema.Properties["spec"]
	spec.Properties["tenant"] = apiextensionsv1.JSONSchemaProps{Type: "string", Description: "Who pays."}
	spec.Required = append(spec.Required, "tenant")
	schema.Properties["spec"] = spec
}
