package desired

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
)

// LastSnapshot returns the copy that is made before a Database goes. It is kept with the dumps.
func LastSnapshot(db *v1.Database) *v1.DBSnapshot {
	name := SetName(db) + "-last"
	if len(name) > 40 { // the limit of its kind
		name = db.Name[:27] + "-" + digest(db.Name)[:7] + "-last"
	}
	return &v1.DBSnapshot{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(db)},
		Spec: v1.DBSnapshotSpec{
			Source: v1.SnapshotSource{DatabaseRef: &v1.DatabaseReference{Name: db.Name}},
			Storage: &v1.SnapshotStorage{
				PersistentVolumeClaim: v1.SnapshotClaim{ClaimName: BackupName(db)},
			},
		},
	}
}
