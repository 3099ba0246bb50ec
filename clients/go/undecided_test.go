package keytally

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestWhatKeytallySurelyDidNotDebitIsSentAgainHoweverLongThatTakes(t *testing.T) {
	for _, one := range []struct {
		code         int
		isEachsError bool
		isDoubtful   bool
	}{
		{42901, false, false},
		{42920, false, false},
		{50301, false, false},
		{50306, true, false},
		{50308, false, false},
		{50308, true, false},
		{50305, true, true},
		{50001, false, true},
	} {
		failed := fmt.Sprintf(`{"error":{"code":%d,"message":"no"}}`, one.code)
		isBack := false
		var isRetried atomic.Bool
		url := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			switch {
			case isBack || r.URL.Path == "/servingz":
				_, _ = io.WriteString(w, `{"status":"VALID"}`)
			case one.isEachsError && r.URL.Path != verifyPath && !isRetried.Load():
				results := strings.Repeat(failed+",", strings.Count(string(body), `"key"`))
				_, _ = io.WriteString(w, `{"results":[`+strings.TrimSuffix(results, ",")+`]}`)
			default:
				// A repetition would come too late.
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(one.code / 100)
				_, _ = io.WriteString(w, failed)
			}
		})
		client := newTestClient(t, Options{URL: url, Token: "x", OnRetry: func(*Error) { isRetried.Store(true) }})
		var lost []error
		kept, err := client.KeepUsage(KeepUsageOptions{OnLost: func(one Lost) { lost = append(lost, one.Err) }, Pause: time.Hour})
		must(t, err)
		// Together they leave in a batch too.
		equal(t, together(8, func(int) string {
			call := keptOf("key_x", "1")
			_, err := call.send(context.Background(), client)
			kept.keep(call, true)
			return fmt.Sprint(codeOf(err))
		}), fmt.Sprintf("map[%d:8]", one.code))
		equal(t, kept.Flush(context.Background()), 8)
		for _, call := range kept.calls {
			if !call.sentAt.IsZero() {
				call.sentAt = call.sentAt.Add(-repeatableFor)
			}
		}
		isBack = true
		equal(t, kept.Flush(context.Background()), 0)
		equal(t, fmt.Sprint(one.code, len(lost)), fmt.Sprint(one.code, map[bool]int{true: 8}[one.isDoubtful]))
	}
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
		call := keptOf("key_x", "1")
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

func TestARefusalProvesNoMissingDebitWhereAnEarlierAttemptMayHaveBeenDebited(t *testing.T) {
	var refusal string
	url := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if refusal == "40102" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprint(w, `{"error":{"code":40102,"message":"no"}}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"status":%q}`, refusal)
	})
	client := newTestClient(t, Options{URL: url, Token: "x"})
	for _, refusal = range []string{"40102", "EXPIRED", "DISABLED", "DELETED", "INVALID_SCOPES", "INVALID", "USAGE_LIMITED", "RATE_LIMITED"} {
		var lost []string
		onLost := func(one Lost) {
			why := string(one.Status)
			if one.Err == ErrDoubtful {
				why = "doubtful"
			} else if one.Err != nil {
				why = fmt.Sprint(codeOf(one.Err))
			}
			lost = append(lost, why)
		}
		kept, err := client.KeepUsage(KeepUsageOptions{OnLost: onLost, Pause: time.Hour})
		must(t, err)
		sent := keptOf("key_x", "1")
		sent.sentAt = time.Now()
		kept.keep(keptOf("key_x", "1"), true)
		kept.keep(sent, true)
		expected := fmt.Sprintf("0 [%s doubtful]", refusal)
		switch refusal {
		// keytally decides these two after it has looked for a debit.
		case "USAGE_LIMITED":
			expected = "0 [USAGE_LIMITED USAGE_LIMITED]"
		case "RATE_LIMITED":
			expected = "2 []"
		}
		equal(t, fmt.Sprint(kept.Flush(context.Background()), lost), expected)
		for _, call := range kept.calls {
			equal(t, call.sentAt.IsZero(), true)
		}
	}
}

func TestAFractionOfZeroReleases(t *testing.T) {
	for usage, expected := range map[string]bool{"0": true, "0.0000000": true, "00": true, "": false, "0.": false, "0.1": false, ".0": false} {
		equal(t, isZero(usage), expected)
	}
}
