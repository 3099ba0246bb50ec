package keytally

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// Credits need a refill by a person, which takes longer.
	usageRetrySeconds = 60
	rateLimitName     = "rateLimitPerSecond"
)

// Refusal says why a request is refused, for a body of your own.
type Refusal struct {
	Status int
	// Code is that of keytally's catalogue of errors.
	Code int
	// Reason is for programs.
	Reason    string
	Message   string
	RequestID string
	// RetryAfterSeconds says when to come again; 0 where that would not help.
	RetryAfterSeconds int64
	// LimitedBy is the limit that refused it; nil where none did.
	LimitedBy *LimitedBy
}

// reason is why a request is refused, and the limit that refused it.
type reason struct {
	name      string
	limitedBy *LimitedBy
}

// Waiting alone ends none of these: they have 429 only for who asks for it.
var lasting = map[string]bool{
	"CREDITS_USED_UP": true, "SPEND_CAP_REACHED": true, "NO_BILLING_RECORD": true, "COST_ABOVE_LIMIT": true,
}

// refuse answers a refused request: an error envelope or the options' own body, with the headers that belong to its status.
func (o *GuardOptions) refuse(w http.ResponseWriter, r *http.Request, why reason, requestID string) {
	refusal := refusalOf(why, requestID, o.OutOfCredits, time.Now())
	bodyOf := o.RefusalBody
	if bodyOf == nil {
		bodyOf = envelope
	}
	contentType, body := bodyOf(refusal, r)
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("X-Request-Id", requestID)
	if refusal.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	if refusal.RetryAfterSeconds > 0 {
		header.Set("Retry-After", strconv.FormatInt(refusal.RetryAfterSeconds, 10))
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(refusal.Status)
	_, _ = w.Write(body)
}

func refusalOf(why reason, requestID string, outOfCredits int, now time.Time) Refusal {
	name := why.name
	if outOfCredits != 0 && lasting[name] {
		name = string(StatusUsageLimited)
	}
	told := refusals[name]
	refusal := Refusal{told.code / 100, told.code, why.name, told.message, requestID, 0, why.limitedBy}
	if why.limitedBy != nil {
		refusal.Message += " Limit: " + why.limitedBy.Name + "."
	}
	switch {
	case refusal.Status != http.StatusTooManyRequests && refusal.Status != http.StatusServiceUnavailable:
	case why.limitedBy != nil && why.limitedBy.RetryAt != nil:
		refusal.RetryAfterSeconds = atLeast(1, ceilSeconds(*why.limitedBy.RetryAt-now.UnixMilli()))
	case name == string(StatusUsageLimited):
		refusal.RetryAfterSeconds = usageRetrySeconds
	default:
		refusal.RetryAfterSeconds = 1
	}
	return refusal
}

// told has the fields of both bodies, in the order in which the other clients and keytally itself write them.
type told struct {
	Status    int    `json:"status,omitempty"`
	Title     string `json:"title,omitempty"`
	Code      int    `json:"code"`
	Message   string `json:"message,omitempty"`
	RequestID string `json:"requestId"`
	Reason    string `json:"reason"`
	Limit     string `json:"limit,omitempty"`
}

func (r Refusal) told() told {
	fields := told{Code: r.Code, RequestID: r.RequestID, Reason: r.Reason}
	if r.LimitedBy != nil {
		fields.Limit = r.LimitedBy.Name
	}
	return fields
}

func envelope(refusal Refusal, _ *http.Request) (string, []byte) {
	fields := refusal.told()
	fields.Message = refusal.Message
	return "application/json", jsonOf(map[string]told{"error": fields})
}

// ProblemJSON makes problem details (RFC 9457) of a refusal, for GuardOptions.RefusalBody.
func ProblemJSON(refusal Refusal, _ *http.Request) (contentType string, body []byte) {
	fields := refusal.told()
	fields.Status, fields.Title = refusal.Status, refusal.Message
	return "application/problem+json", jsonOf(fields)
}

func jsonOf(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return bytes.TrimRight(text.Bytes(), "\n")
}

// reasonOf gives the reason to refuse a request whose key is not valid.
func reasonOf(decision *Decision) reason {
	limitedBy := decision.LimitedBy
	name := decision.Reason
	switch {
	case decision.Status == StatusRateLimited && limitedBy != nil && limitedBy.Name != rateLimitName:
		name = "REQUESTS_USED_UP"
	case name == "LIMIT_REACHED" && limitedBy != nil && limitedBy.RetryAt == nil:
		name = "COST_ABOVE_LIMIT"
	}
	// Of some only the status says why.
	for _, known := range []string{name, string(decision.Status)} {
		if _, ok := refusals[known]; ok {
			return reason{known, limitedBy}
		}
	}
	return reason{"FAILED", limitedBy}
}

// setRateLimit sets RateLimit and RateLimit-Policy of the current IETF draft, and the three older headers (the reset in Unix seconds).
func setRateLimit(header http.Header, limit *DecisionRateLimit, now time.Time) {
	if limit == nil {
		return
	}
	left := atLeast(0, ceilSeconds(limit.ResetAt-now.UnixMilli()))
	header.Set("RateLimit", fmt.Sprintf(`"key";r=%d;t=%d`, limit.Remaining, left))
	header.Set("RateLimit-Policy", fmt.Sprintf(`"key";q=%d;w=%d`, limit.Limit, limit.WindowSeconds))
	header.Set("X-RateLimit-Limit", strconv.FormatInt(limit.Limit, 10))
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

func atLeast(least, value int64) int64 {
	if value < least {
		return least
	}
	return value
}
