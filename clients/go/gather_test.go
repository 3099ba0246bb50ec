package keytally

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func verifyOnce(client *Client, key string) string {
	decision, err := client.Verify(context.Background(), Verification{Key: key, Billing: &VerificationBilling{Usage: "1"}})
	if err != nil {
		return err.Error()
	}
	return string(decision.Status)
}

// newBlocking starts a server that counts the calls it gets, and answers them once release is closed.
func newBlocking(t *testing.T) (url string, calls *atomic.Int64, release chan struct{}) {
	calls, release = &atomic.Int64{}, make(chan struct{})
	return newServer(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Verifications []json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&body)
		results := `{"status":"VALID"}`
		if len(body.Verifications) > 0 {
			calls.Add(int64(len(body.Verifications) - 1))
			results = `{"results":[` + results + strings.Repeat(","+results, len(body.Verifications)-1) + `]}`
		}
		calls.Add(1)
		<-release
		_, _ = io.WriteString(w, results)
	}), calls, release
}

func TestCallsThatComeWhileOthersAreOnTheirWayHoldUpNobody(t *testing.T) {
	url, calls, release := newBlocking(t)
	client := newTestClient(t, Options{URL: url, Token: "x"})
	first, others := make(chan string, 1), make(chan string, 1)
	go func() { first <- verifyOnce(client, "first") }()
	eventually(t, "the first is on its way", func() bool { return calls.Load() == 1 })
	go func() { others <- together(20, func(int) string { return verifyOnce(client, "other") }) }()
	// The server answers nothing: they leave after a millisecond.
	eventually(t, "they left too", func() bool { return calls.Load() == 21 })
	close(release)
	equal(t, <-first+" "+<-others, "VALID map[VALID:20]")
}

func TestEachCallOfABatchHasItsOwnDeadlineAndItsOwnContext(t *testing.T) {
	url, calls, release := newBlocking(t)
	defer close(release)
	client := newTestClient(t, Options{URL: url, Token: "x"})
	canceled, cancel := context.WithCancel(context.Background())
	defer cancel()
	outcomes := make(chan error, 3)
	verify := func(ctx context.Context, options ...CallOption) {
		_, err := client.Verify(ctx, Verification{Key: "x"}, options...)
		outcomes <- err
	}
	go verify(canceled)
	eventually(t, "it is on its way", func() bool { return calls.Load() == 1 })
	cancel()
	equal(t, <-outcomes, context.Canceled)
	go verify(context.Background(), WithTimeout(60*time.Millisecond))
	equal(t, failure(t, <-outcomes).Message, "keytally did not answer in time")
	soon, cancelSoon := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancelSoon()
	go verify(soon)
	if err := <-outcomes; !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}
