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

// BegunKey is the key of the ConfigMap whose presence means that the database has data: from then on the primary does not
// begin with an empty volume, whoever lost the one it had.
const BegunKey = "begun"

// digest names a content. Twelve digits of it tell the few contents apart that one object has in its life.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// Settings are the user's settings as the server reads them.
func Settings(db *v1.Database) string {
	var b strings.Builder
	if db.Spec.Engine != v1.PostgreSQL {
		b.WriteString("[mysqld]\n")
	}
	for _, name := range slices.Sorted(maps.Keys(db.Spec.Configuration)) {
		value := string(db.Spec.Configuration[name])
		if db.Spec.Engine == v1.PostgreSQL {
			b.WriteString(name + " = '" + strings.ReplaceAll(value, "'", "''") + "'\n")
			continue
		}
		b.WriteString(name + ` = "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + "\"\n")
	}
	return b.String()
}

// settingsKey is the key of these settings. Others have another one, so that no pod finds settings under its feet that it
// was not started with.
func settingsKey(db *v1.Database) string {
	if db.Spec.Engine == v1.PostgreSQL {
		return "settings-" + digest(Settings(db)) + ".conf"
	}
	return "settings-" + digest(Settings(db)) + ".cnf"
}

// Config returns the ConfigMap with the settings, those of keep, which pods still refer to, and the pin.
func Config(db *v1.Database, keep map[string]string, begun bool, pin Pin) *corev1.ConfigMap {
	data := maps.Clone(keep)
	if data == nil {
		data = map[string]string{}
	}
	data[settingsKey(db)] = Settings(db)
	if begun {
		data[BegunKey] = "true"
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ConfigName(db), Labels: labels(db), Annotations: pin.Annotations}, Data: data,
	}
}

// ScriptsName is the name of the ConfigMap with these scripts.
func ScriptsName(db *v1.Database, scripts map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		parts = append(parts, name, scripts[name])
	}
	return SetName(db) + "-scripts-" + digest(parts...)
}

// Scripts returns the ConfigMap with the scripts, which never change under this name.
func Scripts(db *v1.Database, scripts map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ScriptsName(db, scripts), Labels: labels(db)},
		Immutable:  new(true), Data: scripts,
	}
}

// Uses are the keys of the ConfigMap with the settings, and the ConfigMaps with scripts, that pods of this template refer
// to.
func Uses(db *v1.Database, pod *corev1.PodSpec) (keys, scripts []string) {
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
