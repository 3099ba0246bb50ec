package keytally

import (
	"context"
	"net/http"
	"testing"
	"time"
)

func TestACallThatIsTooOldToBeRepeatedIsHandedBackNotDebitedTwice(t *testing.T) {
	acme := newCustomer(t, "100")
	var lost []Lost
	kept, err := acme.client.KeepUsage(KeepUsageOptions{OnLost: func(one Lost) { lost = append(lost, one) }, Pause: time.Minute})
	must(t, err)
	call := func(usage string) keptCall {
		asked := Verification{Key: acme.key, Billing: &VerificationBilling{Usage: usage}}
		return keptCall{verification: asked, idempotencyKey: newID()}
	}
	old := call("1")
	old.sentAt = time.Now().Add(-repeatableFor)
	kept.keep(old)
	kept.keep(call("2"))
	equal(t, kept.Flush(context.Background()), 0)
	equal(t, len(lost), 1)
	equal(t, lost[0].Err, ErrDoubtful)
	acme.become(t, "2 used 0 held")
}

func TestARateLimitOnlyDelaysKeptUsage(t *testing.T) {
	acme := newCustomer(t, "100")
	ctx := context.Background()
	slow, err := acme.client.CreateKey(ctx, CreateKeyRequest{Name: "slow", WorkspaceID: acme.workspace, ExternalMeterID: "acme", RateLimitPerSecond: 1})
	must(t, err)
	kept, err := acme.client.KeepUsage(KeepUsageOptions{OnLost: func(one Lost) { t.Error(one.Status, one.Err) }, Pause: 100 * time.Millisecond})
	must(t, err)
	for i := 0; i < 3; i++ {
		asked := Verification{Key: slow.APIKey.Key, Billing: &VerificationBilling{Usage: "1"}}
		kept.keep(keptCall{verification: asked, idempotencyKey: newID()})
	}
	eventually(t, "all were reported", func() bool { return kept.Len() == 0 })
	acme.become(t, "3 used 0 held")
}

func TestWhileVerifyAnswersNothingManyRequestsPassAndEachIsDebitedOnce(t *testing.T) {
	acme := newCustomer(t, "100")
	verify := newProxy(t, requireStack(t).verify)
	impatient := newTestClient(t, Options{URL: verify.url, Token: requireStack(t).token, VerifyTimeout: 3 * time.Second})
	kept, err := impatient.KeepUsage(KeepUsageOptions{OnLost: func(one Lost) { t.Error(one.Status, one.Err) }, Pause: time.Minute})
	must(t, err)
	url := serve(t, impatient, GuardOptions{Cost: Cost{Usage: "1"}, Open: kept}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(IdentityOf(r.Context()).Status))
	})
	// Each is debited at its first attempt, without an answer.
	verify.become("hang")
	equal(t, together(64, func(int) string {
		_, text := get(t, url, acme.key)
		return text
	}), "map[UNDECIDED:64]")
	verify.become("pass")
	eventually(t, "all is reported", func() bool { return kept.Flush(context.Background()) == 0 })
	acme.become(t, "64 used 0 held")
}
