package schema

import (
	"strconv"
	"strings"
)

// formats holds values for the formats that the API server validates, see k8s.io/apiextensions-apiserver's
// pkg/apiserver/validation. The first value of each format is the most ordinary.
var formats = map[string][]variant{
	"date-time": namedVariants("utc", "2030-01-02T03:04:05Z", "past", "2001-02-03T04:05:06Z",
		"other-zone", "2030-01-02T05:04:05+02:00", "fraction", "2030-01-02T03:04:05.678901Z"),
	"datetime": namedVariants("utc", "2030-01-02T03:04:05Z", "past", "2001-02-03T04:05:06Z"),
	"date":     namedVariants("future", "2030-01-02", "past", "2001-02-03", "leap", "2028-02-29"),
	"duration": durations,
	"byte":     namedVariants("text", "dGVzdGtpdA==", "binary", "AAH/"),
	"uuid":     namedVariants("one", "11111111-2222-4333-8444-555555555555", "other", "99999999-8888-4777-a666-555555555555"),
	"uuid3":    namedVariants("one", "11111111-2222-3333-8444-555555555555"),
	"uuid4":    namedVariants("one", "11111111-2222-4333-8444-555555555555"),
	"uuid5":    namedVariants("one", "11111111-2222-5333-8444-555555555555"),
	"ipv4":     namedVariants("private", "10.0.0.1", "unspecified", "0.0.0.0", "loopback", "127.0.0.1"),
	"ipv6":     namedVariants("short", "2001:db8::1", "unspecified", "::", "long", "2001:0db8:0000:0000:0000:0000:0000:0001"),
	"cidr":     namedVariants("v4", "10.0.0.0/8", "host-bits", "10.1.2.3/8", "one", "192.0.2.1/32", "v6", "2001:db8::/32"),
	"mac":      namedVariants("one", "02:00:00:00:00:01", "other", "02-00-00-00-00-02"),
	"uri":      namedVariants("https", "https://example.com/testkit?a=b#c", "port", "http://example.com:8080"),
	"hostname": namedVariants("one", "testkit.example.com", "short", "a"),
	"email":    namedVariants("one", "testkit@example.com"),
	"hexcolor": namedVariants("one", "#0a0B0c", "short", "#fff"),
	"rgbcolor": namedVariants("one", "rgb(1,2,3)"),
	"isbn":     namedVariants("one", "0321751043"), "isbn10": namedVariants("one", "0321751043"),
	"isbn13":     namedVariants("one", "978-0321751041"),
	"creditcard": namedVariants("one", "4111111111111111"), "ssn": namedVariants("one", "111-11-1111"),
	"bsonobjectid":   namedVariants("one", "507f1f77bcf86cd799439011"),
	"password":       namedVariants("other", "testkit", "empty", "", "special", `p"a's$s {w} #`),
	"k8s-short-name": namedVariants("one", "testkit", "short", "a", "longest", strings.Repeat("a", 63)),
	"k8s-long-name":  namedVariants("one", "testkit.example.com", "short", "a", "longest", longName),
}

// longName is as long as a Kubernetes object name can be.
var longName = strings.Repeat(strings.Repeat("a", 62)+".", 3) + strings.Repeat("a", 64-1)

// durations holds strings that time.ParseDuration accepts. The last two are equal in different notations.
var durations = namedVariants("seconds", "10s", "zero", "0s", "short", "1ms", "long", "8760h",
	"minute", "1m", "same-minute", "60s")

// namedVariants converts pairs of names and values to variants.
func namedVariants(pairs ...string) []variant {
	all := make([]variant, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, variant{kind: pairs[i], value: pairs[i+1]})
	}
	return all
}

func wholeNumber(s string) (int64, bool) {
	i, err := strconv.ParseInt(s, 10, 64)
	return i, err == nil
}
