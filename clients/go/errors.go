package keytally

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Error is the error of a failed call: keytally answered with an error, or did not answer at all (Status and Code are 0 then).
type Error struct {
	// Status is the HTTP status.
	Status int
	// Code is the code from keytally's table of errors; 0 if something other than keytally answered.
	Code int
	// Message is for people.
	Message string
	// RequestID is in keytally's logs too; empty without an answer.
	RequestID string
	// Details say of a request that was not valid which fields were wrong, and why.
	Details []Detail
	// RetryAfter is for how long to wait before the next attempt; 0 if keytally did not say.
	RetryAfter time.Duration

	// mayBeDebited says whether an attempt of a verification may have been debited, and was not refused before.
	mayBeDebited bool
	cause        error
}

// Detail says what is wrong with a field of a request.
type Detail struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Error says what went wrong, for logs.
func (e *Error) Error() string {
	if e.Code == 0 {
		return e.Message
	}
	text := fmt.Sprintf("keytally answered %d: %s", e.Code, e.Message)
	for _, detail := range e.Details {
		text += fmt.Sprintf(" (%s %s)", detail.Path, detail.Message)
	}
	return text
}

// Unwrap gives the error below, such as that of a refused connection.
func (e *Error) Unwrap() error { return e.cause }

// Unavailable says whether nothing was decided, because keytally or a server before it is unavailable or overloaded.
func (e *Error) Unavailable() bool {
	return e.Status == 0 || e.Status == 408 || e.Status == 429 || e.Status >= 500
}

const (
	firstRequestStillRuns = 40905
	// A cancel found nothing that was taken.
	nothingTaken = 40451
	// What a wrong access token gets after some 401s.
	tooManyFailures = 42901
	// A flood of wrong keys can use up the team's quota, and must not let them pass.
	overQuota        = 42920
	redisUnavailable = 50301
	outboxFull       = 50306
	overloaded       = 50308
)

// passing says whether the same request may succeed a moment later.
func (e *Error) passing() bool {
	return e.Unavailable() || e.Code == firstRequestStillRuns
}

// debits says whether an attempt with this error may have been debited, and was not refused before.
func (e *Error) debits() bool {
	switch e.Code {
	case tooManyFailures, overQuota, redisUnavailable, outboxFull, overloaded:
		return false
	}
	return !e.refused()
}

// refused says whether keytally refused a request for what it is, and would again.
func (e *Error) refused() bool {
	return e.Code != 0 && !e.Unavailable() && e.Status != http.StatusConflict
}

// errorBody is an error of keytally, whose codes begin with their HTTP status.
type errorBody struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Details []Detail `json:"details"`
}

func (b *errorBody) isOurs() bool { return b != nil && b.Code >= 40_000 && b.Code <= 59_999 }

// errorOf turns an answer that is not a success into an error.
func errorOf(status int, header http.Header, text []byte) *Error {
	failed := &Error{
		Status:    status,
		Message:   fmt.Sprintf("HTTP %d, but the answer is not from keytally; check the address", status),
		RequestID: header.Get("X-Request-Id"),
	}
	if ms, err := strconv.ParseUint(header.Get("Retry-After-Ms"), 10, 32); err == nil {
		failed.RetryAfter = time.Duration(ms) * time.Millisecond
	} else if seconds, err := strconv.ParseFloat(header.Get("Retry-After"), 64); err == nil && seconds >= 0 && seconds < 1e6 {
		failed.RetryAfter = time.Duration(seconds * float64(time.Second))
	}
	var envelope struct{ Error *errorBody }
	if json.Unmarshal(text, &envelope) == nil && envelope.Error.isOurs() && envelope.Error.Code/100 == status {
		failed.Code, failed.Message, failed.Details = envelope.Error.Code, envelope.Error.Message, envelope.Error.Details
	}
	return failed
}

// foreign is the error of an answer that is a success, but not keytally's.
func foreign(received *answer, cause error) *Error {
	failed := errorOf(received.status, received.header, nil)
	failed.cause = cause
	return failed
}

// What keytally says with each 429 and 503 of a verification.
var retryAfter = map[int]time.Duration{
	http.StatusTooManyRequests:    time.Second,
	http.StatusServiceUnavailable: 50 * time.Millisecond,
}

// errorInBatch is the error of one verification of a batch, as it would be if that had been sent alone.
func errorInBatch(body *errorBody, header http.Header) *Error {
	status := body.Code / 100
	return &Error{
		Status: status, Code: body.Code, Message: body.Message, Details: body.Details,
		RequestID: header.Get("X-Request-Id"), RetryAfter: retryAfter[status],
	}
}

// lateError is the error of a request that got no answer in its time.
func lateError(cause error) *Error {
	return &Error{Message: "keytally did not answer in time", cause: cause}
}

// codeOf is the code of keytally's error; 0 of any other.
func codeOf(err error) int {
	var failed *Error
	if errors.As(err, &failed) {
		return failed.Code
	}
	return 0
}

// isMistake says whether the same request would fail again: this side made a mistake.
func isMistake(err error) bool {
	var failed *Error
	return !errors.As(err, &failed) || !failed.Unavailable() || failed.Code == tooManyFailures
}
