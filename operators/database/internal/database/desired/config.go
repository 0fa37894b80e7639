package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
)

// HasDataKey is a key of the ConfigMap. Its presence means that the database has data: the primary does not start with an
// empty volume any more.
const HasDataKey = "begun"

// RecoverFromKey is a key of the ConfigMap with the host of the replica whose data become those of a primary that has lost
// its volume.
const RecoverFromKey = "recover-from"

// Keys of the ConfigMap that only the operator reads.
const (
	// DataClaimKey has the UID of the claim with which the primary was ready last. It is never removed.
	DataClaimKey = "data-claim"
	// RecoveredKey has the value of the annotation for a recovery from a replica that was carried out.
	RecoveredKey = "recovered"
)

// digest returns 12 hexadecimal digits of a SHA-256 hash. They are enough for the few contents of one object.
func digest(parts ...string) string { return fullDigest(parts...)[:12] }

func fullDigest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Settings returns the user's settings in the format of the server.
func Settings(db *v1.Database) string {
	var b strings.Builder
	if db.Spec.Engine != v1.PostgreSQL {
		b.WriteString("[mysqld]\n")
	}
	for _, name := range slices.Sorted(maps.Keys(db.Spec.Configuration)) {
		value := string(db.Spec.Configuration[name])
		if db.Spec.Engine == v1.PostgreSQL {
			b.WriteString(name + " = '" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(value) + "'\n")
			continue
		}
		b.WriteString(name + ` = "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + "\"\n")
	}
	return b.String()
}

// settingsKey returns a key that depends on the settings, so that the settings of a running pod never change.
func settingsKey(db *v1.Database) string {
	if db.Spec.Engine == v1.PostgreSQL {
		return "settings-" + digest(Settings(db)) + ".conf"
	}
	return "settings-" + digest(Settings(db)) + ".cnf"
}

// ConfigMap returns the ConfigMap with the current settings, the other keys in keep, and the annotations of the pinned
// template.
func ConfigMap(db *v1.Database, keep map[string]string, pin PinnedTemplate) *corev1.ConfigMap {
	data := maps.Clone(keep)
	if data == nil {
		data = map[string]string{}
	}
	data[settingsKey(db)] = Settings(db)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ConfigName(db), Labels: labels(db), Annotations: pin.Annotations}, Data: data,
	}
}

// ScriptsName returns the name of the ConfigMap with these scripts. It depends on their content.
func ScriptsName(db *v1.Database, scripts map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		parts = append(parts, name, scripts[name])
	}
	return SetName(db) + "-scripts-" + digest(parts...)
}

// ScriptsConfigMap returns the immutable ConfigMap with the scripts.
func ScriptsConfigMap(db *v1.Database, scripts map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ScriptsName(db, scripts), Labels: labels(db)},
		Immutable:  new(true), Data: scripts,
	}
}

// References returns the settings keys and the script ConfigMaps that a pod mounts.
func References(db *v1.Database, pod *corev1.PodSpec) (keys, scripts []string) {
	for _, v := range pod.Volumes {
		switch {
		case v.ConfigMap == nil:
		case v.Name == configVolume && v.ConfigMap.Name == ConfigName(db):
			for _, item := range v.ConfigMap.Items {
				keys = append(keys, item.Key)
			}
		case v.Name == scriptsVolume:
			scripts = append(scripts, v.ConfigMap.Name)
		}
	}
	return keys, scripts
}
