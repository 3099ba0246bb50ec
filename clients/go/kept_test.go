package keytally

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"
)

func TestKeptUsageIsSentUntilItIsDecidedAndNeverWhereItCouldBeDebitedAgain(t *testing.T) {
	now := time.Now()
	for _, one := range []struct {
		// A status, a code, or the status of a server that is not keytally's.
		answer string
		sentAt time.Time
		// What becomes of it.
		expected string
	}{
		{"VALID", now, "VALID"},
		{"INVALID", time.Time{}, "INVALID"},
		{"40102", time.Time{}, "40102"},
		// keytally may refuse these before it looks for an earlier debit, but not the next two.
		{"DISABLED", now, "doubtful"},
		{"40102", now, "doubtful"},
		{"USAGE_LIMITED", now, "USAGE_LIMITED"},
		{"RATE_LIMITED", now, "kept"},
		// Of these all but one were surely debited nothing: they may wait for as long as it takes.
		{"42901", time.Time{}, "kept"},
		{"42920", time.Time{}, "kept"},
		{"50301", time.Time{}, "kept"},
		{"50306", time.Time{}, "kept"},
		{"50308", time.Time{}, "kept"},
		{"50305", time.Time{}, "kept, perhaps debited"},
		{"404", time.Time{}, "kept, perhaps debited"},
		{"VALID", now.Add(-repeatableFor), "doubtful"},
	} {
		url := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			code, err := strconv.Atoi(one.answer)
			if err == nil {
				// A repetition would come too late.
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(code / map[bool]int{true: 100, false: 1}[code > 999])
			}
			_, _ = fmt.Fprintf(w, `{"status":%q,"error":{"code":%d}}`, one.answer, code)
		})
		kept, err := newTestClient(t, Options{URL: url, Token: "x"}).KeepUsage(KeepUsageOptions{OnLost: func(Lost) {}})
		must(t, err)
		call := &keptCall{verification: Verification{Key: "key_x"}, idempotencyKey: newID(), sentAt: one.sentAt}
		lost, became := kept.decide(call), "kept"
		switch {
		case lost == nil && !call.sentAt.IsZero():
			became = "kept, perhaps debited"
		case lost == nil:
		case lost.Err == ErrDoubtful:
			became = "doubtful"
		case lost.Err != nil:
			became = fmt.Sprint(codeOf(lost.Err))
		default:
			became = string(lost.Status)
		}
		equal(t, one.answer+": "+became, one.answer+": "+one.expected)
		equal(t, kept.Unavailable(), one.answer == "404")
	}
}

func TestFlushEndsWithItsContextAndAnOnLostThatPanicsEndsNothing(t *testing.T) {
	client := newTestClient(t, Options{URL: "http://127.0.0.1:1", Token: "x"})
	kept, err := client.KeepUsage(KeepUsageOptions{OnLost: func(Lost) { panic("no room") }})
	must(t, err)
	kept.keep(keptCall{verification: Verification{Key: "key_x"}, sentAt: time.Now().Add(-repeatableFor)}, true)
	equal(t, kept.Flush(context.Background()), 0)
	kept.keep(keptCall{verification: Verification{Key: "key_x"}}, false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	equal(t, kept.Flush(ctx), 1)
}

func TestACallOfWhichOneAttemptGotNoAnswerIsDoubtfulWhateverTheNextOneGot(t *testing.T) {
	for _, isOnKept := range []bool{false, true} {
		var kept, first string
		attempts := 0
		url := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/servingz" {
				kept = r.RemoteAddr
				_, _ = io.WriteString(w, `{}`)
				return
			}
			attempts++
			if attempts == 1 {
				first = r.RemoteAddr
				reset(w)
				return
			}
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"code":50308,"message":"no"}}`)
		})
		client := newTestClient(t, Options{URL: url, Token: "x"})
		if isOnKept {
			equal(t, client.Ready(context.Background()), true)
		}
		call := keptCall{verification: Verification{Key: "key_x"}, idempotencyKey: newID()}
		_, err := call.send(context.Background(), client)
		equal(t, fmt.Sprint(codeOf(err), attempts, first == kept, call.sentAt.IsZero()), fmt.Sprint(50308, 2, isOnKept, false))
	}
}
