package database

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/report"
	"github.com/homeostat-dev/homeostat/operators/database/internal/scripts"
	"github.com/homeostat-dev/homeostat/operators/database/internal/snapshot"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// source is what is copied, as far as it is known.
type source struct {
	*snapshot.Source // nil while it is not known at all

	scripts map[string]string // of its engine
	// reason and message say why nothing can be copied now; "" if it can.
	reason, message string
	// broken says that this is worth telling although no copy is due.
	broken bool
}

// block says why nothing can be copied, unless that is known already.
func (s *source) block(reason, message string) {
	if s.reason == "" {
		s.reason, s.message = reason, message
	}
}

// source looks at what is to be copied. What is missing is waited for; the error is that of a look that has to be repeated.
func (s *snapshots) source(p *snapshotPass) (source, error) {
	spec := &p.Object.Spec
	var from source
	var err error
	switch {
	case spec.Source.DatabaseRef != nil:
		from, err = databaseSource(p, spec.Source.DatabaseRef.Name)
	case spec.Source.Postgres != nil:
		from, err = s.serverSource(p.Object)
	default:
		from = source{Source: &snapshot.Source{Claim: spec.Source.PersistentVolumeClaimName}}
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

func databaseSource(p *snapshotPass, name string) (source, error) {
	db, err := sdk.Ref(p, &v1.Database{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if reason := sdk.Reason(err); reason != "" {
		return source{reason: reason, message: fmt.Sprintf("Database %s does not exist", name), broken: true}, nil
	}
	if err != nil {
		return source{}, err
	}
	from := source{Source: &snapshot.Source{
		Engine: db.Spec.Engine, Image: db.Status.Image, Host: name + "-db." + db.Namespace + ".svc", Port: 3306,
		Database: db.Spec.DatabaseName, User: db.Spec.Username,
		Password: corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: db.Status.SecretName}, Key: "password",
		},
		ImagePullPolicy: db.Spec.ImagePullPolicy, ImagePullSecrets: db.Spec.ImagePullSecrets, Pod: db.Spec.PodTemplate,
		Claim: "data-" + name + "-db-0",
	}}
	if db.Spec.Engine == v1.PostgreSQL {
		from.Port = 5432
	}
	switch resting := db.Status.State == v1.Hibernated && p.Object.Spec.Method == v1.MethodVolumeSnapshot; {
	case resting: // a volume is copied all the better
	case db.Spec.BootstrapFrom != nil && db.Status.Restored == "":
		from.block("DatabaseNotReady", fmt.Sprintf("Database %s does not have the data yet that it begins with", name))
	case !available(db) || db.Status.SecretName == "" || db.Status.Image == "":
		from.block("DatabaseNotReady", fmt.Sprintf("Database %s accepts no connections", name))
	}
	return from, nil
}

// available reports whether there is a primary to copy from: replicas that do not follow, and a Database that is to go,
// are the more a reason for a copy.
func available(db *v1.Database) bool {
	return conditions.IsTrue(db, report.Available) || db.DeletionTimestamp != nil // whose status says no more: a try tells
}

func (s *snapshots) serverSource(o *v1.DBSnapshot) (source, error) {
	server := o.Spec.Source.Postgres
	image, err := s.options.Image(v1.PostgreSQL, server.Version)
	if err != nil {
		return source{}, fmt.Errorf("making the image: %w", err)
	}
	return source{Source: &snapshot.Source{
		Engine: v1.PostgreSQL, Image: image, Host: server.Host, Port: server.Port, Database: server.Database, User: server.User,
		SSLMode: server.SSLMode, Password: server.PasswordSecretRef,
	}}, nil
}

// dumpSource adds what a dump needs beside a server.
func dumpSource(p *snapshotPass, from *source) error {
	spec := &p.Object.Spec
	if from.Source != nil {
		if spec.PgDump != nil && spec.PgDump.Image != "" {
			from.Image = spec.PgDump.Image
		}
		var err error
		if from.scripts, err = scripts.Of(string(from.Engine)); err != nil || from.scripts["dump.sh"] == "" {
			from.reason, from.message, from.broken = "NotSupported", fmt.Sprintf("dumps of %s are not supported", from.Engine), true
			from.Source = nil
		}
	}
	if spec.Storage == nil || spec.Storage.PersistentVolumeClaim.ClaimName == "" {
		return nil
	}
	return claimExists(p, from, spec.Storage.PersistentVolumeClaim.ClaimName)
}

// volumeSource adds what a VolumeSnapshot needs.
func volumeSource(p *snapshotPass, from *source) error {
	if !sdk.Installed(p, snapshot.VolumeSnapshotNamed("")) {
		from.reason, from.message, from.broken = "KindNotInstalled", fmt.Sprintf("kind %s of %s is missing: install the CSI "+
			"snapshotter with its CRDs", snapshot.VolumeSnapshotKind.Kind, snapshot.VolumeSnapshotKind.GroupVersion()), true
	}
	if from.Source == nil {
		return nil
	}
	return claimExists(p, from, from.Claim)
}

func claimExists(p *snapshotPass, from *source, name string) error {
	claim, err := sdk.Ref(p, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
	switch {
	case sdk.Reason(err) != "":
		from.block(sdk.Reason(err), fmt.Sprintf("PersistentVolumeClaim %s does not exist", name))
		from.broken = true
	case err != nil:
		return err
	case claim.Status.Phase == corev1.ClaimLost:
		from.block("ClaimLost", fmt.Sprintf("the volume of PersistentVolumeClaim %s is gone", name))
	}
	return nil
}
