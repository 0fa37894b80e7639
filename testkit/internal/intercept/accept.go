package intercept

import (
	"net/http"
	"strings"
)

// binaryEncodings are the encodings that a RoundTripper should not have to understand. Clients that ask for one of them
// decode what they get by its Content-Type.
var binaryEncodings = map[string]bool{
	"application/vnd.kubernetes.protobuf": true,
	"application/cbor":                    true,
	"application/cbor-seq":                true, // a watch in CBOR
}

// AskForJSON asks for JSON where the client would take something unreadable, with the same parameters, which say for
// example that a table or an aggregated discovery document is wanted.
func AskForJSON(header http.Header) {
	for i, value := range header["Accept"] {
		ranges := strings.Split(value, ",")
		for j, media := range ranges {
			kind, parameters, found := strings.Cut(strings.TrimSpace(media), ";")
			if !binaryEncodings[strings.ToLower(strings.TrimSpace(kind))] {
				continue
			}
			ranges[j] = "application/json"
			if found {
				ranges[j] += ";" + parameters
			}
		}
		header["Accept"][i] = strings.Join(ranges, ",")
	}
}
