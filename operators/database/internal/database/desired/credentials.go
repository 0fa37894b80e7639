package desired

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
)

// Keys of the Secret. Each password has 26 characters of base 32: 130 bits.
const (
	PasswordKey            = "password"
	DumpPasswordKey        = "dump-password" // of the role that reads everything
	replicationPasswordKey = "replication-password"
)

// CredentialsSecret returns the Secret with new random passwords and the connection parameters of a client. It is created
// once, because the data depend on the passwords.
func CredentialsSecret(db *v1.Database, clusterDomain string) *corev1.Secret {
	password, port := rand.Text(), Port(db.Spec.Engine)
	host := fmt.Sprintf("%s.%s.svc.%s", SetName(db), db.Namespace, clusterDomain)
	uri := url.URL{
		Scheme: string(db.Spec.Engine), Host: host + ":" + strconv.Itoa(int(port)), Path: "/" + db.Spec.DatabaseName,
	}
	data := map[string]string{
		DumpPasswordKey: rand.Text(), replicationPasswordKey: rand.Text(),
		"type": string(db.Spec.Engine), "host": host, "port": strconv.Itoa(int(port)), "database": db.Spec.DatabaseName,
		"username": db.Spec.Username, PasswordKey: password, // used if the user's Secret is removed from the spec later
	}
	if db.Spec.CredentialsSecretRef == nil {
		uri.User = url.UserPassword(db.Spec.Username, password)
		data["uri"] = uri.String()
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: CredentialsName(db), Labels: labels(db)},
		Data:       bytesOf(data),
	}
}

func bytesOf(data map[string]string) map[string][]byte {
	all := make(map[string][]byte, len(data))
	for key, value := range data {
		all[key] = []byte(value)
	}
	return all
}
