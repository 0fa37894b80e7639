package desired

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk"
)

// Manager is the value of [sdk.ManagedByLabel] on all that belongs to a Database.
const Manager = "database"

// The labels and annotations of our own.
const (
	// RoleLabel says of a pod whether it is that of the primary or of a replica. It is written on the pod, not in its template.
	RoleLabel = "techoral.com/role"
	// RolePrimary is the role of member 0, and of no other.
	RolePrimary = "primary"
	// RoleReplica is the role of the other members.
	RoleReplica = "replica"
	// EngineLabel and MajorLabel say on a claim whose data it has.
	EngineLabel = "techoral.com/engine"
	MajorLabel  = "techoral.com/major"
	// ProtectedLabel, with the value "true", has the admission policy refuse the deletion.
	ProtectedLabel = "techoral.com/deletion-protection"
	// RestoredAnnotation says on the claim of the primary what its data were restored from.
	RestoredAnnotation = "techoral.com/restored"
	// ComponentLabel tells the pods of the server from those of dumps.
	ComponentLabel = "app.kubernetes.io/component"
	// ServerComponent is the component of the members' pods.
	ServerComponent = "server"
)

// MaxMembers is how many members a Database has at most.
const MaxMembers = 5

// SetName is the name of the StatefulSet, of the Service of the primary, and of what begins the other names.
func SetName(db *v1.Database) string { return db.Name + "-db" }

// ReadServiceName is the name of the Service of the replicas.
func ReadServiceName(db *v1.Database) string { return SetName(db) + "-ro" }

// HeadlessServiceName is the name of the Service that gives each pod a name.
func HeadlessServiceName(db *v1.Database) string { return SetName(db) + "-hl" }

// CredentialsName is the name of the Secret that the operator makes.
func CredentialsName(db *v1.Database) string { return SetName(db) + "-credentials" }

// ConfigName is the name of the ConfigMap with the settings.
func ConfigName(db *v1.Database) string { return SetName(db) + "-config" }

// BackupName is the name of the CronJob of the dumps, and of their claim.
func BackupName(db *v1.Database) string { return SetName(db) + "-backup" }

// RestoreName is the name of the Job that puts the data in place with which a Database begins.
func RestoreName(db *v1.Database) string { return SetName(db) + "-restore" }

// ClaimName is the name of the claim of a member.
func ClaimName(db *v1.Database, member int) string { return DataVolume + "-" + PodName(db, member) }

// PodName is the name of the pod of a member. That of member 0 is the primary.
func PodName(db *v1.Database, member int) string { return SetName(db) + "-" + strconv.Itoa(member) }

// Port is that of all members.
func Port(engine v1.Engine) int32 {
	if engine == v1.PostgreSQL {
		return 5432
	}
	return 3306
}

// Endpoint is where a Service of the Database is reached.
func Endpoint(db *v1.Database, service, clusterDomain string) string {
	return fmt.Sprintf("%s.%s.svc.%s:%d", service, db.Namespace, clusterDomain, Port(db.Spec.Engine))
}

// SecretName is the name of the Secret with the password of the owner of the database.
func SecretName(db *v1.Database) string {
	if ref := db.Spec.CredentialsSecretRef; ref != nil {
		return ref.Name
	}
	return CredentialsName(db)
}

// Major is the part of the version that the data depend on.
func Major(version string) string {
	for i, c := range version {
		if c < '0' || c > '9' {
			return version[:i]
		}
	}
	return version
}

// labels are those of a child.
func labels(db *v1.Database) map[string]string {
	return map[string]string{
		"app":                    db.Name,
		"managed-by":             "database-operator",
		"app.kubernetes.io/name": string(db.Spec.Engine),
		sdk.InstanceLabel:        db.Name,
	}
}

// protected adds the label by which the admission policy knows what it must not let go.
func protected(db *v1.Database, labels map[string]string) map[string]string {
	if db.Spec.DeletionProtection {
		labels[ProtectedLabel] = "true"
	}
	return labels
}

// Selector are the labels by which the StatefulSet and the Services know the pods of the members.
func Selector(db *v1.Database) map[string]string { return map[string]string{"app": SetName(db)} }

// podLabels are those of the pods of a component.
func podLabels(db *v1.Database, component string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name": string(db.Spec.Engine),
		ComponentLabel:           component,
		sdk.InstanceLabel:        db.Name,
		sdk.ManagedByLabel:       Manager,
	}
}

// Role is the role of a member's pod, by its labels: member 0 is the primary, and nobody else ever is. It is "" if they do
// not tell which member it is.
func Role(labels map[string]string) string {
	switch labels[appsv1.PodIndexLabel] {
	case "":
		return ""
	case "0":
		return RolePrimary
	default:
		return RoleReplica
	}
}
