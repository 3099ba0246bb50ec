package keytally

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

func TestUsageThatIsTooOldIsInDoubtFlushEndsWithItsContextAndAnOnLostThatPanicsEndsNothing(t *testing.T) {
	client := newTestClient(t, Options{URL: "http://127.0.0.1:1", Token: "x"})
	var told error
	kept, err := client.KeepUsage(KeepUsageOptions{OnLost: func(lost Lost) {
		told = lost.Err
		panic("no room")
	}})
	must(t, err)
	kept.keep(keptCall{verification: Verification{Key: "key_x"}, sentAt: time.Now().Add(-repeatableFor)}, true)
	equal(t, kept.Flush(context.Background()), 0)
	equal(t, told, ErrDoubtful)
	kept.keep(keptCall{verification: Verification{Key: "key_x"}}, false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	equal(t, kept.Flush(ctx), 1)
}

func TestAKeptConnectionThatEndsLeavesItsCallInDoubtAndNothingIsSentAgainUnheard(t *testing.T) {
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
	equal(t, client.Ready(context.Background()), true)
	call := keptCall{verification: Verification{Key: "key_x"}, idempotencyKey: newID()}
	_, err := call.send(context.Background(), client)
	equal(t, fmt.Sprint(codeOf(err), attempts, first == kept, call.sentAt.IsZero()), "50308 2 true false")
}
