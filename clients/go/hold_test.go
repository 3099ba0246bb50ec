package keytally

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestDrainWaitsUntilWhatWasHeldIsSettled(t *testing.T) {
	acme := newCustomer(t, "100")
	options := GuardOptions{Cost: Cost{Usage: "10"}, Hold: &HoldOptions{ExpiresIn: 600}}
	url := serve(t, acme.client, options, func(_ http.ResponseWriter, r *http.Request) {
		HoldOf(r.Context()).CaptureAtEnd(func() string { return "4" })
	})
	status, _ := get(t, url, acme.key)
	equal(t, status, http.StatusOK)
	// The handler ends after its answer, which has no body.
	eventually(t, "it is settled", func() bool {
		must(t, acme.client.Drain(context.Background()))
		return acme.amounts(t) == "4 used 0 held"
	})
}

func TestACaptureThatIsRefusedAfterItsHandlerEndedReleasesItsHold(t *testing.T) {
	asked, refuse := make(chan string, 10), make(chan bool)
	url := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- strings.TrimPrefix(r.URL.Path, "/api/v1/")
		if strings.HasSuffix(r.URL.Path, "/capture") {
			<-refuse
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":40001,"message":"no usage"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"status":"VALID","hold":{"id":"h-1"}}`)
	})
	client := newTestClient(t, Options{URL: url, Token: "x"})
	options := GuardOptions{Cost: Cost{Usage: "10"}, Hold: &HoldOptions{ExpiresIn: 600}}
	refused := make(chan error, 1)
	guarded := serve(t, client, options, func(_ http.ResponseWriter, r *http.Request) {
		held := HoldOf(r.Context())
		go func() {
			_, err := held.Capture(r.Context(), "much")
			refused <- err
		}()
		equal(t, <-asked+" "+<-asked, "api-key/verify usage/capture")
	})
	status, _ := get(t, guarded, "key_x")
	equal(t, status, http.StatusOK)
	close(refuse)
	equal(t, failure(t, <-refused).Code, 40001)
	equal(t, <-asked, "usage/release")
	must(t, client.Drain(context.Background()))
}

func TestWhatAHandlerStreamedBeforeItPanickedIsPaidFor(t *testing.T) {
	acme := newCustomer(t, "100")
	told := make(chan error, 1)
	options := GuardOptions{
		Cost: Cost{Usage: "10"},
		Hold: &HoldOptions{ExpiresIn: 600},
		OnError: func(err error, _ *http.Request) {
			told <- err
			panic("no log")
		},
	}
	for _, one := range []struct {
		cost         func() string
		become, told string
	}{
		{func() string { return "4" }, "4 used 0 held", ""},
		// Their holds end by themselves.
		{func() string { panic("no price") }, "4 used 10 held", "panicked: no price"},
		{func() string { return "" }, "4 used 20 held", "40001"},
	} {
		cost := one.cost
		url := serve(t, acme.client, options, func(w http.ResponseWriter, r *http.Request) {
			HoldOf(r.Context()).CaptureAtEnd(cost)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		r, _ := http.NewRequest(http.MethodGet, url, nil)
		r.Header.Set("X-Api-Key", acme.key)
		if received, err := http.DefaultClient.Do(r); err == nil {
			received.Body.Close()
		}
		acme.become(t, one.become)
		if one.told != "" {
			equal(t, strings.Contains((<-told).Error(), one.told), true)
		}
	}
	must(t, acme.client.Drain(context.Background()))
}
