package keytally

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// keptOf makes a call to keep.
func keptOf(key string) keptCall {
	return keptCall{verification: Verification{Key: key}, idempotencyKey: newID()}
}

func TestKeptUsageIsSentUntilItIsDecidedAndNeverWhereItCouldBeDebitedAgain(t *testing.T) {
	now := time.Now()
	for _, one := range []struct {
		// A status, a code, or the status of a server that is not keytally's.
		answer string
		sentAt time.Time
		// How many are left, and whether these may have been debited; what OnLost was told.
		expected string
	}{
		{"VALID", now, "0 []"},
		{"INVALID", time.Time{}, "0 [INVALID]"},
		{"40102", time.Time{}, "0 [40102]"},
		// keytally may refuse these before it looks for an earlier debit, but not the next two.
		{"DISABLED", now, "0 [DOUBTFUL]"},
		{"40102", now, "0 [DOUBTFUL]"},
		{"USAGE_LIMITED", now, "0 [USAGE_LIMITED]"},
		{"RATE_LIMITED", now, "1 false []"},
		// Of these all but one were surely debited nothing: they may wait for as long as it takes.
		{"42901", time.Time{}, "1 false []"},
		{"42920", time.Time{}, "1 false []"},
		{"50301", time.Time{}, "1 false []"},
		{"50306", time.Time{}, "1 false []"},
		{"50308", time.Time{}, "1 false []"},
		{"50305", time.Time{}, "1 true []"},
		{"404", time.Time{}, "1 true []"},
		{"VALID", now.Add(-repeatableFor), "0 [DOUBTFUL]"},
	} {
		asked := 0
		url := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			code, err := strconv.Atoi(one.answer)
			switch {
			case r.URL.Path == "/servingz":
				_, _ = io.WriteString(w, `{}`)
				return
			case err == nil:
				// A repetition would come too late.
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(code / map[bool]int{true: 100, false: 1}[code > 999])
			}
			asked++
			_, _ = fmt.Fprintf(w, `{"status":%q,"error":{"code":%d}}`, one.answer, code)
		})
		client := newTestClient(t, Options{URL: url, Token: "x"})
		lost := []string{}
		kept, err := client.KeepUsage(KeepUsageOptions{Pause: time.Hour, OnLost: func(one Lost) {
			switch {
			case one.Err == ErrDoubtful:
				lost = append(lost, "DOUBTFUL")
			case one.Err != nil:
				lost = append(lost, fmt.Sprint(codeOf(one.Err)))
			default:
				lost = append(lost, string(one.Status))
			}
			panic("no room")
		}})
		must(t, err)
		call := keptOf("key_x")
		call.sentAt = one.sentAt
		kept.keep(call, true)
		left := fmt.Sprint(kept.Flush(context.Background()))
		for call := range kept.calls {
			left += fmt.Sprint(" ", !call.sentAt.IsZero())
		}
		equal(t, one.answer+": "+left+" "+fmt.Sprint(lost), one.answer+": "+one.expected)
		equal(t, kept.Unavailable(), one.answer == "404")
		equal(t, asked == 0, time.Since(one.sentAt) >= repeatableFor && !one.sentAt.IsZero())
	}
}

func TestFlushEndsWithItsContextWhateverElseReports(t *testing.T) {
	asked, release := make(chan bool, 100), make(chan bool)
	url := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- true
		select {
		case <-release:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, `{"status":"VALID"}`)
	})
	client := newTestClient(t, Options{URL: url, Token: "x", VerifyTimeout: time.Hour})
	kept, err := client.KeepUsage(KeepUsageOptions{OnLost: func(Lost) {}, Pause: time.Millisecond})
	must(t, err)
	kept.keep(keptOf("key_x"), false)
	<-asked
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	left := make(chan int, 1)
	go func() { left <- kept.Flush(ctx) }()
	eventually(t, "it has ended", func() bool { return len(left) == 1 })
	equal(t, <-left, 1)
	close(release)
	eventually(t, "the other report goes on", func() bool { return kept.Len() == 0 })
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
		call := keptOf("key_x")
		_, err := call.send(context.Background(), client)
		equal(t, fmt.Sprint(codeOf(err), attempts, first == kept, call.sentAt.IsZero()), fmt.Sprint(50308, 2, isOnKept, false))
	}
}

// reset ends the connection of a request that was read to its end.
func reset(w http.ResponseWriter) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = connection.(*net.TCPConn).SetLinger(0)
		_ = connection.Close()
	}
}
