package bundle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/manifests"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/bundle"
)

// operators returns the folders of all operators.
func operators(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("../operators/*/config/manifests")
	if err != nil || len(dirs) == 0 {
		t.Fatal("there are no operators", err)
	}
	for i, dir := range dirs {
		dirs[i] = filepath.Dir(filepath.Dir(dir))
	}
	return dirs
}

// tree returns the files below a folder, by path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// image returns the image of an operator in the file images.txt.
func image(t *testing.T, operator string) string {
	t.Helper()
	data, err := os.ReadFile("images.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "homeostat/"+operator+"@") {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("images.txt has no image of %s", operator)
	return ""
}

// The stored bundles equal the bundles rendered from config, for each operator, and have no problems.
func TestBundles(t *testing.T) {
	t.Parallel()
	for _, dir := range operators(t) {
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := bundle.Render(dir, image(t, name))
			if err != nil {
				t.Fatal(err)
			}
			into := filepath.Join(t.TempDir(), name)
			if err := b.Write(into); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tree(t, name), tree(t, into)); diff != "" {
				t.Errorf("bundle/%s is not what config makes (run make bundle), -is +should be:\n%s", name, diff)
			}
			problems, err := bundle.Check(name)
			if err != nil || len(problems) > 0 {
				t.Errorf("%v, %v", problems, err)
			}
		})
	}
}

// The permissions in a bundle are exactly the permissions that config gives the operator.
func TestRights(t *testing.T) {
	t.Parallel()
	for _, dir := range operators(t) {
		name := filepath.Base(dir)
		b, err := manifests.GetBundleFromDir(name)
		if err != nil {
			t.Fatal(err)
		}
		strategy := &b.CSV.Spec.InstallStrategy.StrategySpec
		got := map[string][]string{}
		for _, p := range strategy.ClusterPermissions {
			got["ClusterRole "+p.ServiceAccountName] = rights(p.Rules)
		}
		for _, p := range strategy.Permissions {
			got["Role "+p.ServiceAccountName] = rights(p.Rules)
		}
		if want := configuredRights(t, dir); !cmp.Equal(want, got) {
			t.Errorf("%s: the rights of config and of the bundle differ:\n%s", name, cmp.Diff(want, got))
		}
	}
}

// rights lists permissions one by one: one verb for one resource.
func rights(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					all = append(all, fmt.Sprintf("%s %s.%s %v", verb, resource, group, r.ResourceNames))
				}
			}
			for _, path := range r.NonResourceURLs {
				all = append(all, verb+" "+path)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// configuredRights returns the permissions in config/rbac, by the kind of the role and the account.
func configuredRights(t *testing.T, dir string) map[string][]string {
	t.Helper()
	kustomizer := krusty.MakeKustomizer(krusty.MakeDefaultOptions())
	resources, err := kustomizer.Run(filesys.MakeFsOnDisk(), filepath.Join(dir, "config/rbac"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	roles, all := map[string][]rbacv1.PolicyRule{}, map[string][]string{}
	var bindings []rbacv1.ClusterRoleBinding
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var binding rbacv1.ClusterRoleBinding
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &binding); err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasSuffix(binding.Kind, "Binding"):
			bindings = append(bindings, binding)
		case strings.HasSuffix(binding.Kind, "Role"):
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatal(err)
			}
			roles[role.Kind+role.Name] = role.Rules
		}
	}
	for _, b := range bindings {
		key := strings.TrimSuffix(b.Kind, "Binding") + " " + b.Subjects[0].Name
		all[key] = append(all[key], rights(roles[b.RoleRef.Kind+b.RoleRef.Name])...)
		slices.Sort(all[key])
		all[key] = slices.Compact(all[key])
	}
	return all
}

// Each defect is reported with a message that names it.
func TestTamperedBundles(t *testing.T) {
	t.Parallel()
	const csv = "manifests/database-operator.clusterserviceversion.yaml"
	for name, c := range map[string]struct{ file, from, to, want string }{
		"no definition":    {"manifests/techoral.com_dbsnapshots.yaml", "", "", "dbsnapshots.techoral.com"},
		"image with a tag": {csv, "image: homeostat/database@sha256:*", "image: homeostat/database:v1", "has no digest"},
		"another image": {
			csv, "- image: homeostat/database@sha256:*", "- image: homeostat/other@sha256:" + strings.Repeat("a", 64),
			"is missing in spec.relatedImages",
		},
		"category":           {csv, "categories: Database", "categories: Databases", "categories"},
		"capability":         {csv, "capabilities: Seamless Upgrades", "capabilities: Seamless", "capabilities"},
		"no icon":            {csv, "mediatype: image/svg+xml", "mediatype: image/bmp", "not have a valid mediatype"},
		"no mail":            {csv, "email: maintainers@homeostat.dev", "email: no-address", "no-address"},
		"another namespace":  {csv, "supported: true", "supported: false", "AllNamespaces is not supported"},
		"example of nothing": {csv, `"kind": "DBSnapshot"`, `"kind": "DBSnap"`, "DBSnap"},
		"broken examples":    {csv, `"kind": "DBSnapshot",`, `"kind": "DBSnapshot"`, "alm-examples"},
		"name":               {csv, "name: database-operator.v0.2.0", "name: database-operator-0.2", "naming convention"},
		"no field described": {csv, "path: engine", "path: motor", "engine of databases.techoral.com is not described"},
		"no requests":        {csv, "requests:", "limit:", "requests"},
		"old API": {
			"manifests/techoral.com_dbsnapshots.yaml", "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1", "removed in v1.22",
		},
		"an unknown kind": {
			"manifests/database-edit_clusterrole.yaml", "kind: ClusterRole", "kind: NetworkPolicy", "NetworkPolicy",
		},
		"needs another": {
			csv, "  customresourcedefinitions:",
			"  customresourcedefinitions:\n    required:\n    - {name: a.b.c, kind: A, version: v1}", "depends",
		},
		"without a definition": {csv, "name: dbsnapshots.techoral.com", "name: others.techoral.com", "others.techoral.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("database")); err != nil {
				t.Fatal(err)
			}
			if c.from == "" {
				if err := os.Remove(filepath.Join(dir, c.file)); err != nil {
					t.Fatal(err)
				}
			} else {
				replace(t, filepath.Join(dir, c.file), c.from, c.to)
			}
			problems, err := bundle.Check(dir)
			said := fmt.Sprint(err, problems)
			if !strings.Contains(said, c.want) {
				t.Errorf("it says %s\nwant %q", said, c.want)
			}
		})
	}
}

// replace changes the first occurrence of a text. A star at its end matches the rest of the line.
func replace(t *testing.T, file, from, to string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	prefix, open := strings.CutSuffix(from, "*")
	before, after, found := strings.Cut(string(data), prefix)
	if !found {
		t.Fatalf("%s does not have %q", file, from)
	}
	if open {
		after = after[strings.IndexByte(after, '\n'):]
	}
	if err := os.WriteFile(file, []byte(before+to+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Render rejects an unusable configuration with a message that names the cause.
func TestRenderErrors(t *testing.T) {
	t.Parallel()
	const base = "config/manifests/bases/database-operator.clusterserviceversion.yaml"
	good := image(t, "database")
	for name, c := range map[string]struct{ image, file, from, to, want string }{
		"a tag":            {image: "homeostat/database:v0.2.0", want: "has no digest"},
		"no name":          {image: "@" + strings.SplitAfter(good, "@")[1], want: "has no digest"},
		"half a digest":    {image: good[:len(good)-1], want: "has no digest"},
		"no icon":          {good, "config/manifests/icon.svg", "", "", "reading the icon"},
		"no base":          {good, base, "", "", "reading the base"},
		"no version":       {good, base, "version: 0.2.0", "", "version"},
		"unknown field":    {good, base, "maturity:", "mature:", "mature"},
		"another account":  {good, "config/rbac/role_binding.yaml", "    name: database-operator\n", "    name: other\n", "alone"},
		"no Deployment":    {good, "config/manager/deployment.yaml", "kind: Deployment", "kind: StatefulSet", "Deployment"},
		"no marker":        {good, "api/v1/database.go", "+operator-sdk", "+sdk", "operator-sdk:csv:customresourcedefinitions"},
		"half a marker":    {good, "api/v1/database.go", `{Service,v1,""}`, "{Service,v1}", "{{Kind,version,name}}"},
		"no kustomization": {image: good, want: "unable to find", file: "config/default/kustomization.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "database")
			if err := os.CopyFS(dir, os.DirFS("../operators/database")); err != nil {
				t.Fatal(err)
			}
			switch {
			case c.file == "":
			case c.from == "":
				if err := os.Remove(filepath.Join(dir, c.file)); err != nil {
					t.Fatal(err)
				}
			default:
				replace(t, filepath.Join(dir, c.file), c.from, c.to)
			}
			if _, err := bundle.Render(dir, c.image); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// An operator may be in a folder of another name, such as that of a clone.
func TestNameOfFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkout")
	if err := os.CopyFS(dir, os.DirFS("../operators/myapp")); err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Render(dir, image(t, "myapp")); err == nil {
		t.Error("the name of the folder is taken for that of the operator, and there is no such base")
	}
	b, err := bundle.RenderAs("myapp", dir, image(t, "myapp"))
	if err != nil {
		t.Fatal(err)
	}
	if b.Operator != "myapp" || b.Package != "myapp-operator" {
		t.Errorf("the operator is %s, the package %s", b.Operator, b.Package)
	}
}

// Markers of a field override its schema, also below the first level. The bundle takes the Deployment from config.
func TestMarkersAndDeployment(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "database")
	if err := os.CopyFS(dir, os.DirFS("../operators/database")); err != nil {
		t.Fatal(err)
	}
	const marker = "// +operator-sdk:csv:customresourcedefinitions:type="
	spec := filepath.Join(dir, "api/v1/database_spec.go")
	replace(t, spec, "\tReplicas *int32", "\t"+marker+`spec,displayName="Members",xDescriptors={"urn:a"}`+"\n\tReplicas *int32")
	replace(t, spec, "\tTimeZone string", "\t"+marker+`spec,displayName="Clock"`+"\n\tTimeZone string")
	status := filepath.Join(dir, "api/v1/database_status.go")
	replace(t, status, "\tEndpoint string", "\t"+marker+`status,displayName="Address"`+"\n\tEndpoint string")
	manager := filepath.Join(dir, "config/manager/deployment.yaml")
	replace(t, manager, "  replicas: 1\n", "  strategy: {type: Recreate}\n  replicas: 3\n")
	b, err := bundle.Render(dir, image(t, "database"))
	if err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(t.TempDir(), "database")
	if err := b.Write(into); err != nil {
		t.Fatal(err)
	}
	stored, err := manifests.GetBundleFromDir(into)
	if err != nil {
		t.Fatal(err)
	}
	deployment := stored.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec
	if deployment.Strategy.Type != "Recreate" || *deployment.Replicas != 3 {
		t.Errorf("the Deployment is %+v", deployment)
	}
	got := map[string]string{}
	for _, owned := range stored.CSV.Spec.CustomResourceDefinitions.Owned {
		if owned.Kind == "Database" {
			for _, d := range owned.SpecDescriptors {
				got["spec."+d.Path] = fmt.Sprint(d.DisplayName, d.XDescriptors)
			}
			for _, d := range owned.StatusDescriptors {
				got["status."+d.Path] = d.DisplayName
			}
		}
	}
	for path, want := range map[string]string{
		"spec.replicas": "Members[urn:a]", "spec.backup.timeZone": "Clock[]", "status.endpoint": "Address",
		"spec.hibernate": "Hibernate[urn:alm:descriptor:com.tectonic.ui:booleanSwitch]",
	} {
		if got[path] != want {
			t.Errorf("%s is described as %q, want %q", path, got[path], want)
		}
	}
}
