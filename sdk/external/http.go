package external

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxErrorText bounds the part of a response that an error has, in bytes.
const maxErrorText = 1 << 10

// CheckResponse returns nil for a response with a status 2xx, and otherwise the error of this package for its status:
//
//   - 404 and 410: [ErrNotFound]
//   - 409: [ErrExists]
//   - 429: [RetryAfter] the time of the header Retry-After, in seconds or as a date
//   - 408, 412, 423, 425 and 5xx: an error after which the outcome is not known. A server may have carried the request out
//   - other 4xx: [Rejected]
//
// The text of the error has the status and up to 1 KiB of the body. The caller closes the body. Check a status with another
// meaning first, such as a 503 of an API that has then carried out nothing, and a body that differs each time, such as one
// with an ID of the request: the text of an error is in a condition.
func CheckResponse(resp *http.Response) error {
	if resp.StatusCode/100 == 2 {
		return nil
	}
	err := fmt.Errorf("the external API responds with %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorText)) // a part of it is better than none
	if text := strings.TrimSpace(string(body)); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	switch code := resp.StatusCode; code {
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case http.StatusConflict:
		return fmt.Errorf("%w: %w", ErrExists, err)
	case http.StatusTooManyRequests:
		return RetryAfter(retryAfter(resp.Header.Get("Retry-After"), time.Now()), err)
	case http.StatusRequestTimeout, http.StatusPreconditionFailed, http.StatusLocked, http.StatusTooEarly:
		return err
	default:
		if code/100 == 4 {
			return Rejected(err)
		}
		return err
	}
}

// retryAfter returns the time of a header, or 0 if it has none.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if date, err := http.ParseTime(header); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}
