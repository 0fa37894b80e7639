package intercept

import (
	"net/http"
	"strings"
)

// binaryEncodings are encodings that an interceptor should not have to decode. Clients that accept them decode a response
// by its Content-Type.
var binaryEncodings = map[string]bool{
	"application/vnd.kubernetes.protobuf": true,
	"application/cbor":                    true,
	"application/cbor-seq":                true, // a watch in CBOR
}

// AskForJSON replaces binary encodings in the Accept header by JSON. It keeps the parameters, such as those for a table
// or an aggregated discovery document.
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
