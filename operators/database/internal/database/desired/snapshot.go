package desired

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
)

// LastSnapshot returns the copy that is made before the data of a Database are deleted. Its dump is stored in the claim of
// the backups. The name contains a digest of the UID, so each Database of the same name has another one.
func LastSnapshot(db *v1.Database) *v1.DBSnapshot {
	const digits, limit = 7, 40 // the limit is that of the kind DBSnapshot
	name := db.Name[:min(len(db.Name), limit-len("-db-last-")-digits)]
	name = strings.TrimRight(name, "-") + "-db-last-" + digest(db.Name, string(db.UID))[:digits]
	return &v1.DBSnapshot{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(db)},
		Spec: v1.DBSnapshotSpec{
			Verify: "restore", // the data are deleted afterwards
			Source: v1.SnapshotSource{DatabaseRef: &v1.DatabaseReference{Name: db.Name}},
			Storage: &v1.SnapshotStorage{
				PersistentVolumeClaim: v1.SnapshotClaim{ClaimName: BackupName(db)},
			},
		},
	}
}
