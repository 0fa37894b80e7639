package desired

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk"
)

// Manager is the value of [sdk.ManagedByLabel] on all children of a Database.
const Manager = "database"

// Labels and annotations of the operator.
const (
	// RoleLabel has the role of a member's pod: primary or replica. The roles controller writes it on the pod, because all pods
	// have one template.
	RoleLabel = "techoral.com/role"
	// RolePrimary is the role of member 0.
	RolePrimary = "primary"
	// RoleReplica is the role of all other members.
	RoleReplica = "replica"
	// EngineLabel and MajorLabel describe the data in a claim.
	EngineLabel = "techoral.com/engine"
	MajorLabel  = "techoral.com/major"
	// ProtectedLabel with the value "true" makes the admission policy reject a deletion.
	ProtectedLabel = "techoral.com/deletion-protection"
	// RestoredAnnotation is on the primary's claim and names the source of the restored data.
	RestoredAnnotation = "techoral.com/restored"
	// SourceAnnotation is on the primary's claim and has the digest of the spec.bootstrapFrom that its data begin with.
	SourceAnnotation = "techoral.com/bootstrap-from"
	// ComponentLabel distinguishes the pods of the server from those of dumps.
	ComponentLabel = "app.kubernetes.io/component"
	// ServerComponent is the component of the members' pods.
	ServerComponent = "server"
)

// MaxMembers is the maximum number of members of a Database.
const MaxMembers = 5

// SetName returns the name of the StatefulSet and of the primary's Service. It is the prefix of all other names.
func SetName(db *v1.Database) string { return db.Name + "-db" }

// ReadServiceName returns the name of the Service of the replicas.
func ReadServiceName(db *v1.Database) string { return SetName(db) + "-ro" }

// HeadlessServiceName returns the name of the Service for the DNS names of the pods.
func HeadlessServiceName(db *v1.Database) string { return SetName(db) + "-hl" }

// CredentialsName returns the name of the Secret that the operator creates.
func CredentialsName(db *v1.Database) string { return SetName(db) + "-credentials" }

// ConfigName returns the name of the ConfigMap with the settings.
func ConfigName(db *v1.Database) string { return SetName(db) + "-config" }

// BackupName returns the name of the CronJob of the dumps and of their claim.
func BackupName(db *v1.Database) string { return SetName(db) + "-backup" }

// RestoreName returns the name of the Job that restores the initial data.
func RestoreName(db *v1.Database) string { return SetName(db) + "-restore" }

// ClaimName returns the name of a member's claim.
func ClaimName(db *v1.Database, member int) string { return DataVolume + "-" + PodName(db, member) }

// PodName returns the name of a member's pod. Member 0 is the primary.
func PodName(db *v1.Database, member int) string { return SetName(db) + "-" + strconv.Itoa(member) }

// MemberHost returns the host name of a member's pod. It works while the Services select no pod.
func MemberHost(db *v1.Database, member int) string {
	return PodName(db, member) + "." + HeadlessServiceName(db) + "." + db.Namespace + ".svc"
}

// Port returns the port of all members.
func Port(engine v1.Engine) int32 {
	if engine == v1.PostgreSQL {
		return 5432
	}
	return 3306
}

// Endpoint returns the address of a Service as host:port.
func Endpoint(db *v1.Database, service, clusterDomain string) string {
	return fmt.Sprintf("%s.%s.svc.%s:%d", service, db.Namespace, clusterDomain, Port(db.Spec.Engine))
}

// SecretName returns the name of the Secret with the password of the database's owner.
func SecretName(db *v1.Database) string {
	if ref := db.Spec.CredentialsSecretRef; ref != nil {
		return ref.Name
	}
	return CredentialsName(db)
}

// Major returns the part of the version that the data format depends on.
func Major(version string) string {
	for i, c := range version {
		if c < '0' || c > '9' {
			return version[:i]
		}
	}
	return version
}

// labels returns the labels of a child.
func labels(db *v1.Database) map[string]string {
	return map[string]string{
		"app":                    db.Name,
		"managed-by":             "database-operator",
		"app.kubernetes.io/name": string(db.Spec.Engine),
		sdk.InstanceLabel:        db.Name,
	}
}

// withProtectionLabel adds the label that makes the admission policy reject a deletion.
func withProtectionLabel(db *v1.Database, labels map[string]string) map[string]string {
	if db.Spec.DeletionProtection {
		labels[ProtectedLabel] = "true"
	}
	return labels
}

// Selector returns the labels that select the members' pods.
func Selector(db *v1.Database) map[string]string { return map[string]string{"app": SetName(db)} }

// podLabels returns the labels of the pods of a component.
func podLabels(db *v1.Database, component string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name": string(db.Spec.Engine),
		ComponentLabel:           component,
		sdk.InstanceLabel:        db.Name,
		sdk.ManagedByLabel:       Manager,
	}
}

// Role returns the role of a member's pod. Member 0 is the primary, always. The role is "" if the labels do not have the
// member's index.
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
