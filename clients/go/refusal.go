package keytally

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// The rate limit is whole again after a second. Credits need a refill by a person, which takes longer.
const (
	retrySeconds      = "1"
	usageRetrySeconds = "60"
)

// refuse answers a refused request: an error envelope, with the headers that belong to its status.
func refuse(w http.ResponseWriter, why, requestID string) {
	code, message := refused(why)
	status := code / 100
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Request-Id", requestID)
	if status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		header.Set("Retry-After", retrySeconds)
		if why == string(StatusUsageLimited) {
			header.Set("Retry-After", usageRetrySeconds)
		}
	}
	body := envelope(code, message, requestID)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// envelope is the body, to the byte as the other clients and keytally itself write it.
func envelope(code int, message, requestID string) []byte {
	type failure struct {
		Code      int    `json:"code"`
		Message   string `json:"message"`
		RequestID string `json:"requestId"`
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(struct {
		Error failure `json:"error"`
	}{failure{code, message, requestID}})
	return bytes.TrimRight(text.Bytes(), "\n")
}

// refusedFor gives the reason to refuse a request whose key is not valid.
func refusedFor(decision *Decision) string {
	if decision.Reason == "IP_NOT_ALLOWED" {
		return decision.Reason
	}
	return string(decision.Status)
}

// setRateLimit sets RateLimit of the current IETF draft, and the two older headers (the reset in Unix seconds).
func setRateLimit(header http.Header, limit *DecisionRateLimit, now time.Time) {
	if limit == nil {
		return
	}
	left := ceilSeconds(limit.ResetAt - now.UnixMilli())
	if left < 0 {
		left = 0
	}
	header.Set("RateLimit", fmt.Sprintf(`"key";r=%d;t=%d`, limit.Remaining, left))
	header.Set("X-RateLimit-Remaining", strconv.FormatInt(limit.Remaining, 10))
	header.Set("X-RateLimit-Reset", strconv.FormatInt(ceilSeconds(limit.ResetAt), 10))
}

func ceilSeconds(ms int64) int64 {
	seconds := ms / 1000
	if ms%1000 > 0 {
		seconds++
	}
	return seconds
}
