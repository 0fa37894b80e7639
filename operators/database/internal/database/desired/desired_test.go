package desired_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
)

func database(engine v1.Engine) *v1.Database {
	return &v1.Database{
		ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: "shop"},
		Spec: v1.DatabaseSpec{
			Engine: engine, Version: "16.4-bookworm", Storage: "1Gi", Replicas: new(int32(2)), DatabaseName: "app", Username: "app",
			Backup: v1.Backup{Schedule: "@daily", TimeZone: "UTC", Retention: v1.BackupRetention{Count: 7}},
		},
	}
}

// The longest name of a Database leads to valid names of all children.
func TestNamesFit(t *testing.T) {
	t.Parallel()
	db := database(v1.PostgreSQL)
	db.Name = strings.Repeat("a", 42)
	for _, c := range []struct {
		name string
		max  int
	}{
		{desired.SetName(db), 52},    // the revision label of its pods adds 11 characters
		{desired.BackupName(db), 52}, // the names of its Jobs add 11 characters
		{desired.RestoreName(db), 63},
		{desired.ReadServiceName(db), 63},
		{desired.HeadlessServiceName(db), 63},
		{desired.PodName(db, 4), 63},
		{desired.ClaimName(db, 4), 253},
		{desired.ScriptsName(db, nil), 253},
		{desired.LastSnapshot(db).Name, 40},
	} {
		if len(c.name) > c.max || len(validation.IsDNS1123Subdomain(c.name)) > 0 {
			t.Errorf("%s has %d characters, and may have %d", c.name, len(c.name), c.max)
		}
	}
	other := db.DeepCopy()
	other.Name = strings.Repeat("a", 41) + "b"
	if desired.LastSnapshot(db).Name == desired.LastSnapshot(other).Name {
		t.Error("two databases have one last snapshot")
	}
}

// Special characters in a value are quoted.
func TestSettings(t *testing.T) {
	t.Parallel()
	for engine, want := range map[v1.Engine]string{
		v1.PostgreSQL: "a = 'it''s'\nb = 'c\\\\d \"e\" # f'\n",
		v1.MariaDB:    "[mysqld]\na = \"it's\"\nb = \"c\\\\d \\\"e\\\" # f\"\n",
	} {
		db := database(engine)
		db.Spec.Configuration = map[string]v1.Setting{"b": `c\d "e" # f`, "a": "it's"}
		if diff := cmp.Diff(want, desired.Settings(db)); diff != "" {
			t.Errorf("%s, -want +got:\n%s", engine, diff)
		}
	}
}

// All pods comply with the restricted Pod Security Standard.
func TestRestricted(t *testing.T) {
	t.Parallel()
	for _, engine := range []v1.Engine{v1.PostgreSQL, v1.MySQL, v1.MariaDB} {
		db := database(engine)
		members := desired.Template(db, "image", "scripts").Spec
		dumps := desired.BackupCronJob(db, "image", "scripts", "").Spec.JobTemplate.Spec.Template.Spec
		restore := desired.RestoreJob(db, "image", "scripts", "claim", "name").Spec.Template.Spec
		for what, pod := range map[string]corev1.PodSpec{"members": members, "dumps": dumps, "restore": restore} {
			s := pod.SecurityContext
			if !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("%s of %s: %+v", what, engine, s)
			}
			if *pod.AutomountServiceAccountToken {
				t.Errorf("%s of %s have a token", what, engine)
			}
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				s := c.SecurityContext
				if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem ||
					!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
					t.Errorf("container %s of %s: %+v", c.Name, engine, s)
				}
				for _, m := range c.VolumeMounts {
					if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) && m.Name != "data" {
						t.Errorf("container %s of %s mounts %s, which there is not", c.Name, engine, m.Name)
					}
				}
			}
		}
	}
}

// Passwords are unique, and no pod specification contains one.
func TestCredentials(t *testing.T) {
	t.Parallel()
	db := database(v1.PostgreSQL)
	seen := map[string]bool{}
	for range 3 {
		secret := desired.CredentialsSecret(db, "cluster.local")
		for _, key := range []string{"password", "dump-password", "replication-password"} {
			password := string(secret.Data[key])
			if seen[password] || len(password) < 26 {
				t.Errorf("%s is %q", key, password)
			}
			seen[password] = true
		}
		uri, err := url.Parse(string(secret.Data["uri"]))
		if err != nil || uri.Scheme != "postgresql" || uri.Host != "orders-db.shop.svc.cluster.local:5432" || uri.Path != "/app" {
			t.Errorf("uri %s, %v", secret.Data["uri"], err)
		}
		if password, _ := uri.User.Password(); password != string(secret.Data["password"]) {
			t.Error("the uri has another password")
		}
	}
}

func TestMajor(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"16": "16", "16.4": "16", "17beta1": "17", "10.11-noble": "10", "16-alpine": "16",
	} {
		if got := desired.Major(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}

// The pinned template is used until a field changes that the pods depend on.
func TestPinnedTemplate(t *testing.T) {
	t.Parallel()
	size := resource.MustParse("1Gi")
	set := func(db *v1.Database, live *appsv1.StatefulSet, image string, upgrade bool) (*appsv1.StatefulSet, string) {
		template := desired.Template(db, image, "scripts-"+image)
		made, err := desired.StatefulSet(db, desired.ReadPinned(live, &corev1.ConfigMap{}, ""), template, size, upgrade)
		if err != nil {
			t.Fatal(err)
		}
		return made, made.Spec.Template.Spec.Containers[0].Image
	}
	db := database(v1.PostgreSQL)
	live, _ := set(db, &appsv1.StatefulSet{}, "old", false)
	if _, image := set(db, live, "new", false); image != "old" {
		t.Errorf("a new version alone results in %s", image)
	}
	if _, image := set(db, live, "new", true); image != "new" {
		t.Errorf("an upgrade results in %s", image)
	}
	for name, change := range map[string]func(*v1.DatabaseSpec){
		"version":     func(s *v1.DatabaseSpec) { s.Version = "16.5" },
		"image":       func(s *v1.DatabaseSpec) { s.Image = "theirs" },
		"resources":   func(s *v1.DatabaseSpec) { s.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("2")} },
		"settings":    func(s *v1.DatabaseSpec) { s.Configuration = map[string]v1.Setting{"a": "b"} },
		"credentials": func(s *v1.DatabaseSpec) { s.CredentialsSecretRef = &v1.SecretReference{Name: "theirs"} },
		"pods":        func(s *v1.DatabaseSpec) { s.PodTemplate = &v1.PodTemplate{PriorityClassName: "high"} },
	} {
		changed := db.DeepCopy()
		change(&changed.Spec)
		if made, image := set(changed, live, "new", false); image != "new" || desired.SamePods(live, made) {
			t.Errorf("another %s results in %s", name, image)
		}
	}
	for name, change := range map[string]func(*v1.DatabaseSpec){
		"replicas": func(s *v1.DatabaseSpec) { s.Replicas = new(int32(3)) },
		"storage":  func(s *v1.DatabaseSpec) { s.Storage = "2Gi" },
		"backups":  func(s *v1.DatabaseSpec) { s.BackupEnabled = new(false) },
		"policy":   func(s *v1.DatabaseSpec) { s.DeletionPolicy = v1.DeletionDelete },
	} {
		changed := db.DeepCopy()
		change(&changed.Spec)
		if made, _ := set(changed, live, "new", false); !desired.SamePods(live, made) {
			t.Errorf("other %s replace the pods", name)
		}
	}
	broken := live.DeepCopy()
	for key := range broken.Annotations {
		broken.Annotations[key] = "{"
	}
	if _, image := set(db, broken, "new", false); image != "new" {
		t.Errorf("invalid annotations result in %s", image)
	}
}

// An operator that restarts pods for changes of their ConfigMaps must leave the members alone: one key is written when the
// first member is ready.
func TestOtherOperatorsRestartNothing(t *testing.T) {
	t.Parallel()
	db := database(v1.PostgreSQL)
	set, err := desired.StatefulSet(db, desired.PinnedTemplate{}, corev1.PodTemplateSpec{}, resource.MustParse("1Gi"), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"rollout.homeostat.dev/enabled", "reloader.stakater.com/auto"} {
		if got := set.Annotations[key]; got != "false" {
			t.Errorf("annotation %s is %q, want false", key, got)
		}
	}
}

func TestRole(t *testing.T) {
	t.Parallel()
	for member, want := range map[string]string{"0": "primary", "1": "replica", "10": "replica", "": ""} {
		if got := desired.Role(map[string]string{appsv1.PodIndexLabel: member}); got != want {
			t.Errorf("member %q is %q, want %q", member, got, want)
		}
	}
}

// The claim of a predecessor is adopted only with the same engine and major version.
func TestCanReadData(t *testing.T) {
	t.Parallel()
	left := desired.DataClaim(database(v1.PostgreSQL), 0, resource.MustParse("1Gi")).Labels
	for version, want := range map[string]bool{"16": true, "16.9": true, "15": false, "17": false} {
		db := database(v1.PostgreSQL)
		db.Spec.Version = version
		if got := desired.CanReadData(db, left); got != want {
			t.Errorf("version %s: %t", version, got)
		}
	}
	if other := database(v1.MariaDB); desired.CanReadData(other, left) {
		t.Error("MariaDB reads the data of PostgreSQL")
	}
	if fmt.Sprint(left["techoral.com/engine"], left["techoral.com/major"]) != "postgresql16" {
		t.Errorf("the labels are %v", left)
	}
}

// A server has an hour to replay its log. Probes each second let it serve as soon as it can: TestKilledPrimary of package
// realnodes logs how long that takes.
func TestStartupProbe(t *testing.T) {
	t.Parallel()
	template := desired.Template(database(v1.PostgreSQL), "postgres:16", "scripts")
	startup := template.Spec.Containers[0].StartupProbe
	if startup.PeriodSeconds != 1 || startup.FailureThreshold != 3600 {
		t.Errorf("the server has %d probes, one in %d s", startup.FailureThreshold, startup.PeriodSeconds)
	}
}
