package keytally

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// StatusUndecided is that of a request which passed while keytally was unavailable.
const StatusUndecided Status = "UNDECIDED"

// The end client sent the same Idempotency-Key with another request.
const idempotencyMismatch = "IDEMPOTENCY_MISMATCH"

type guard struct {
	client  *Client
	options GuardOptions
	onError func(error, *http.Request)
	// How many cancels are under way.
	cancelling atomic.Int32
}

// Guard makes middleware for net/http, and for every router that takes it: it verifies the key of each request, debits its cost, and
// refuses the request unless the key is valid. IdentityOf tells the handler behind it whose request it is.
func (c *Client) Guard(options GuardOptions) (func(http.Handler) http.Handler, error) {
	if err := options.check(); err != nil {
		return nil, fmt.Errorf("keytally guard: %w", err)
	}
	g := &guard{client: c, options: options, onError: options.OnError}
	if g.onError == nil {
		g.onError = logEachSecond()
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
	}, nil
}

// IdentityOf tells a handler behind a guard whose request it is: the verification's answer, whose status is StatusValid, or
// StatusUndecided where GuardOptions.Open let the request pass. It panics where no guard ran before.
func IdentityOf(ctx context.Context) *Decision {
	found, ok := ctx.Value(passedKey{}).(*passed)
	if !ok {
		panic("keytally.IdentityOf: no guard ran before this handler")
	}
	return found.identity
}

// passed is what a guard tells the handler behind it.
type passed struct {
	identity *Decision
	hold     *Held
}

type passedKey struct{}

func (g *guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	requestID := requestIDOf(r)
	found, why := g.decide(w, r, requestID)
	if found == nil {
		g.options.refuse(w, r, why, requestID)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), passedKey{}, found))
	if found.hold != nil {
		// Also when the handler panics.
		defer found.hold.end()
	}
	next.ServeHTTP(w, r)
}

// decide gives what the handler is told, or the reason to refuse the request.
func (g *guard) decide(w http.ResponseWriter, r *http.Request, requestID string) (*passed, reason) {
	report := func(err error) {
		g.onError(fmt.Errorf("keytally guard, request %s: %w", requestID, err), r)
	}
	keys := KeysOf(r.Header)
	switch {
	case len(keys) == 0:
		return nil, reason{name: "NO_KEY"}
	case len(keys) > 1:
		return nil, reason{name: "TWO_KEYS"}
	// No key is longer or has other characters, also none that was imported.
	case !isPrintable(keys[0], 512):
		return nil, reason{name: string(StatusInvalid)}
	}
	asked, err := g.options.verification(keys[0], r)
	given := ""
	if err == nil {
		given, err = g.options.idempotencyKeyOf(r)
	}
	if err != nil {
		report(err)
		return nil, reason{name: "FAILED"}
	}
	call := keptCall{verification: asked, idempotencyKey: orDefault(given, newID())}
	open := g.options.Open
	if open != nil && open.Unavailable() {
		if open.keep(call, false) {
			return &passed{identity: &Decision{Status: StatusUndecided}}, reason{}
		}
		report(errors.New("keytally is unavailable, and no more usage can be kept"))
		return nil, reason{name: "AWAY"}
	}
	// An end client that leaves does not end the call: what it debited or held would stay unknown.
	ctx := detached{r.Context()}
	decision, err := call.send(ctx, g.client, WithRequestID(requestID))
	if err != nil {
		found, why := g.failed(err, call, report)
		// One that the options give is for repeating the request: cancelled, that would be refused.
		if why.name == "AWAY" && !call.sentAt.IsZero() && given == "" {
			g.cancelLater(call, report)
		}
		return found, why
	}
	setRateLimit(w.Header(), decision.RateLimit, time.Now())
	if decision.Status != StatusValid {
		return nil, reasonOf(decision)
	}
	found := &passed{identity: decision}
	if g.options.holds() {
		found.hold = &Held{client: g.client, onError: report}
		if decision.Hold != nil {
			found.hold.id = decision.Hold.ID
		}
	}
	return found, reason{}
}

// failed decides on a request whose verification failed. The end client did nothing wrong, and must not see the status that the
// error has for this server.
func (g *guard) failed(err error, call keptCall, report func(error)) (*passed, reason) {
	if codeOf(err) == refusals[idempotencyMismatch].code {
		return nil, reason{name: idempotencyMismatch}
	}
	if isMistake(err) {
		report(err)
		return nil, reason{name: "FAILED"}
	}
	code := codeOf(err)
	if open := g.options.Open; open != nil && code != overQuota && open.keep(call, code != 0) {
		return &passed{identity: &Decision{Status: StatusUndecided}}, reason{}
	}
	report(err)
	return nil, reason{name: "AWAY"}
}

// While keytally is unavailable each is repeated for as long as a call may take.
const mostCancels = 1_000

// cancelLater gives back what a call may have taken: its end client is answered that nothing was decided, and shall not pay for it.
func (g *guard) cancelLater(call keptCall, report func(error)) {
	if g.cancelling.Add(1) > mostCancels {
		g.cancelling.Add(-1)
		return
	}
	g.client.settling.Add(1)
	go func() {
		defer g.client.settling.Done()
		defer g.cancelling.Add(-1)
		_, err := g.client.CancelVerification(context.Background(), CancelVerificationRequest{
			Key: call.verification.Key, IdempotencyKey: call.idempotencyKey,
		})
		if err != nil && codeOf(err) != nothingTaken {
			safely("OnError", func() { report(fmt.Errorf("not cancelled: %w", err)) })
		}
	}()
}

// detached has the values of a context, and does not end with it.
type detached struct{ context.Context }

func (detached) Deadline() (time.Time, bool) { return time.Time{}, false }
func (detached) Done() <-chan struct{}       { return nil }
func (detached) Err() error                  { return nil }

const logEvery = time.Second

// A wrong token fails every request: one line a second says it.
func logEachSecond() func(error, *http.Request) {
	var mutex sync.Mutex
	var next time.Time
	return func(err error, _ *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		if now := time.Now(); now.After(next) {
			log.Print(err)
			next = now.Add(logEvery)
		}
	}
}

func requestIDOf(r *http.Request) string {
	if given := r.Header.Get("X-Request-Id"); isPrintable(given, 128) {
		return given
	}
	return newID()
}
