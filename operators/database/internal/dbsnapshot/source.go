package dbsnapshot

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	database "github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	databasestatus "github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/scripts"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// source is the source of copies, as far as it is known.
type source struct {
	*desired.Source // nil while it is unknown

	scripts map[string]string // of its engine
	// reason and message explain why no copy can start now; "" if one can.
	reason, message string
	// reportWhenIdle makes Ready false even if no copy is due.
	reportWhenIdle bool
}

// block sets the reason that prevents a copy, unless there is one already.
func (s *source) block(reason, message string) {
	if s.reason == "" {
		s.reason = reason
		s.message = message
	}
}

// source reads the source of the copies. A missing object is waited for. An error means that the read has to be retried.
func (s *reconciler) source(p *pass) (source, error) {
	spec := &p.Object.Spec
	var from source
	var err error
	switch {
	case spec.Source.DatabaseRef != nil:
		from, err = databaseSource(p, spec.Source.DatabaseRef.Name)
	case spec.Source.Postgres != nil:
		from, err = s.serverSource(p.Object)
	default:
		from = source{Source: &desired.Source{Claim: spec.Source.PersistentVolumeClaimName}}
	}
	if err != nil {
		return from, err
	}
	if spec.Method == v1.MethodVolumeSnapshot {
		err = volumeSource(p, &from)
	} else {
		err = dumpSource(p, &from)
	}
	return from, err
}

func databaseSource(p *pass, name string) (source, error) {
	db, err := sdk.Ref(p, &v1.Database{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if reason := sdk.Reason(err); reason != "" {
		return source{reason: reason, message: fmt.Sprintf("Database %s does not exist", name), reportWhenIdle: true}, nil
	}
	if err != nil {
		return source{}, err
	}
	from := source{Source: &desired.Source{
		Engine: db.Spec.Engine, Image: db.Status.Image, Host: database.MemberHost(db, 0), Port: database.Port(db.Spec.Engine),
		Database: db.Spec.DatabaseName, User: db.Spec.Username,
		Password: corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: db.Status.SecretName}, Key: database.PasswordKey,
		},
		ImagePullPolicy: db.Spec.ImagePullPolicy, ImagePullSecrets: db.Spec.ImagePullSecrets, Pod: db.Spec.PodTemplate,
		Claim: database.ClaimName(db, 0), ScratchSize: db.Spec.Storage, ScratchClass: db.Spec.StorageClassName,
	}}
	plain := p.Object.Spec.PgDump != nil && p.Object.Spec.PgDump.Format == "plain"
	if !plain || db.Spec.Engine != v1.PostgreSQL {
		from.Server = true
		from.Password.Name = database.CredentialsName(db)
		from.Password.Key = database.DumpPasswordKey
	}
	switch resting := db.Status.State == v1.Hibernated && p.Object.Spec.Method == v1.MethodVolumeSnapshot; {
	case resting: // the volume of a stopped server is consistent
	case db.Spec.BootstrapFrom != nil && db.Status.Restored == "":
		from.block("DatabaseNotReady", fmt.Sprintf("Database %s does not have the data yet that it begins with", name))
	case !available(db) || db.Status.SecretName == "" || db.Status.Image == "":
		from.block("DatabaseNotReady", fmt.Sprintf("Database %s accepts no connections", name))
	}
	return from, nil
}

// available reports whether there is a primary to copy from. Lagging replicas do not matter, and a terminating Database is
// copied as well.
func available(db *v1.Database) bool {
	return conditions.IsTrue(db, databasestatus.Available) || db.DeletionTimestamp != nil // its status is outdated
}

func (s *reconciler) serverSource(o *v1.DBSnapshot) (source, error) {
	server := o.Spec.Source.Postgres
	image, err := s.options.Image(v1.PostgreSQL, server.Version)
	if err != nil {
		return source{}, fmt.Errorf("making the image: %w", err)
	}
	return source{Source: &desired.Source{
		Engine: v1.PostgreSQL, Image: image, Host: server.Host, Port: server.Port, Database: server.Database, User: server.User,
		SSLMode: server.SSLMode, CA: server.CASecretRef, Password: server.PasswordSecretRef,
	}}, nil
}

// dumpSource adds the image and the scripts of a dump.
func dumpSource(p *pass, from *source) error {
	spec := &p.Object.Spec
	if from.Source != nil {
		if spec.PgDump != nil && spec.PgDump.Image != "" {
			from.Image = spec.PgDump.Image
		}
		var err error
		if from.scripts, err = scripts.Of(string(from.Engine)); err != nil || from.scripts["dump.sh"] == "" {
			from.reason = "NotSupported"
			from.message = fmt.Sprintf("dumps of %s are not supported", from.Engine)
			from.reportWhenIdle = true
			from.Source = nil
		}
	}
	if spec.Storage == nil || spec.Storage.PersistentVolumeClaim.ClaimName == "" {
		return nil
	}
	return claimExists(p, from, spec.Storage.PersistentVolumeClaim.ClaimName)
}

// volumeSource checks the requirements of a VolumeSnapshot.
func volumeSource(p *pass, from *source) error {
	if !sdk.Installed(p, desired.VolumeSnapshotNamed("")) {
		from.reason = "KindNotInstalled"
		from.message = fmt.Sprintf("kind %s of %s is missing: install the CSI snapshotter with its CRDs",
			desired.VolumeSnapshotKind.Kind, desired.VolumeSnapshotKind.GroupVersion())
		from.reportWhenIdle = true
	}
	if from.Source == nil {
		return nil
	}
	return claimExists(p, from, from.Claim)
}

func claimExists(p *pass, from *source, name string) error {
	claim, err := sdk.Ref(p, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
	switch {
	case sdk.Reason(err) != "":
		from.block(sdk.Reason(err), fmt.Sprintf("PersistentVolumeClaim %s does not exist", name))
		from.reportWhenIdle = true
	case err != nil:
		return err
	case claim.Status.Phase == corev1.ClaimLost:
		from.block("ClaimLost", fmt.Sprintf("the volume of PersistentVolumeClaim %s is gone", name))
	}
	return nil
}
