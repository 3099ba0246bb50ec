package keytally

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// keptOf makes a call to keep.
func keptOf(key, usage string) keptCall {
	return keptCall{verification: Verification{Key: key, Billing: &VerificationBilling{Usage: usage}}, idempotencyKey: newID()}
}

func TestACallThatIsTooOldToBeRepeatedIsHandedBackNotDebitedTwice(t *testing.T) {
	acme := newCustomer(t, "100")
	var kept *KeptUsage
	var lost []string
	longAgo := time.Now().Add(-repeatableFor)
	onLost := func(one Lost) {
		lost = append(lost, fmt.Sprint(one.Verification.Billing.Usage, one.Status, one.Err == ErrDoubtful))
		// The report of this one took long: the last becomes too old meanwhile.
		if one.Status != "" {
			kept.calls[len(kept.calls)-1].sentAt = longAgo
		}
	}
	kept, err := acme.client.KeepUsage(KeepUsageOptions{OnLost: onLost, Pause: time.Hour})
	must(t, err)
	old := keptOf(acme.key, "1")
	old.sentAt = longAgo
	kept.keep(old, false)
	kept.keep(keptOf(acme.key, "2"), false)
	kept.keep(keptOf("key_wrong", "4"), false)
	kept.keep(keptOf(acme.key, "8"), false)
	equal(t, kept.Flush(context.Background()), 0)
	equal(t, fmt.Sprint(lost), "[1true 4INVALIDfalse 8true]")
	acme.become(t, "2 used 0 held")
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
	kept.keep(keptOf("key_x", "1"), false)
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

func TestCallbacksThatPanicEndNeitherReportsNorTheProgram(t *testing.T) {
	verify := newProxy(t, requireStack(t).verify)
	client := newTestClient(t, Options{URL: verify.url, Token: requireStack(t).token, OnRetry: func(*Error) { panic("no log") }})
	lost := make(chan Status)
	kept, err := client.KeepUsage(KeepUsageOptions{Pause: 10 * time.Millisecond, OnLost: func(one Lost) {
		lost <- one.Status
		panic("no room")
	}})
	must(t, err)
	verify.then("refuse")
	for report := 0; report < 2; report++ {
		kept.keep(keptOf("key_wrong", "1"), false)
		kept.keep(keptOf("key_wrong", "1"), false)
		equal(t, <-lost, StatusInvalid)
		equal(t, <-lost, StatusInvalid)
	}
}

func TestUsageStaysKeptWhileSomethingOtherThanKeytallyAnswers(t *testing.T) {
	var status int
	url := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/servingz" {
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, `{}`)
	})
	client := newTestClient(t, Options{URL: url, Token: "x"})
	kept, err := client.KeepUsage(KeepUsageOptions{OnLost: func(one Lost) { t.Error(one.Status, one.Err) }, Pause: time.Hour})
	must(t, err)
	kept.keep(keptOf("key_x", "1"), false)
	for _, status = range []int{http.StatusNotFound, http.StatusOK} {
		equal(t, kept.Flush(context.Background()), 1)
		equal(t, kept.Unavailable(), true)
	}
}
