// Command caseapp is the case app of this client: ../../../helpers/cases.ts says what it must do.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"sync"
	"syscall"
	"time"

	"keytally.dev/keytally"
)

func main() {
	patience, err := strconv.Atoi(os.Getenv("VERIFY_TIMEOUT_MS"))
	must(err)
	handler := newApp(time.Duration(patience) * time.Millisecond)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go func() {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		<-stop
		os.Exit(0)
	}()
	fmt.Printf("listening on %d\n", listener.Addr().(*net.TCPAddr).Port)
	must(http.Serve(listener, handler))
}

// texts are what the app was told, until somebody asks.
type texts struct {
	mutex sync.Mutex
	all   []string
}

func (t *texts) add(text string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.all = append(t.all, text)
}

func (t *texts) take() []string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	taken := append([]string{}, t.all...)
	sort.Strings(taken)
	t.all = nil
	return taken
}

func newApp(patience time.Duration) http.Handler {
	client := newClient(os.Getenv("TOKEN"), patience)
	impatient := newClient(os.Getenv("TOKEN"), 500*time.Millisecond)
	wrong := newClient("kt_wrong", patience)
	told, lost := &texts{}, &texts{}
	onLost := func(one keytally.Lost) { lost.add(whyOf(one)) }
	open, err := client.KeepUsage(keytally.KeepUsageOptions{OnLost: onLost, AtMost: 200})
	must(err)

	one := keytally.Cost{Usage: "1"}
	app := http.NewServeMux()
	guarded := func(path string, client *keytally.Client, options keytally.GuardOptions, handler http.HandlerFunc) {
		options.OnError = func(err error, _ *http.Request) { told.add(err.Error()) }
		guard, err := client.Guard(options)
		must(err)
		app.Handle(path, recovering(guard(handler)))
	}
	guarded("/documents/", client, keytally.GuardOptions{
		Cost:   keytally.CostFunc(costOfDocument),
		Scopes: []keytally.WantedScope{{Representation: "documents", Read: true}},
		IP:     func(r *http.Request) string { return r.Header.Get("X-Forwarded-For") },
	}, identity)
	guarded("/impatient", impatient, keytally.GuardOptions{Cost: one}, identity)
	guarded("/open", impatient, keytally.GuardOptions{Cost: one, Open: open}, identity)
	guarded("/wrong-token", wrong, keytally.GuardOptions{Cost: one}, identity)
	once := keytally.GuardOptions{
		Cost:           keytally.CostFunc(costOfDocument),
		IdempotencyKey: func(r *http.Request) string { return r.Header.Get("Idempotency-Key") },
	}
	guarded("/once", client, once, identity)
	problem := keytally.GuardOptions{Cost: one, OutOfCredits: http.StatusTooManyRequests, RefusalBody: keytally.ProblemJSON}
	guarded("/problem", client, problem, identity)
	wrongCost := keytally.CostFunc(func(r *http.Request) (keytally.Cost, error) {
		return keytally.Cost{Usage: r.URL.Query().Get("cost")}, nil
	})
	guarded("/wrong-cost", client, keytally.GuardOptions{Cost: wrongCost}, identity)
	failing := keytally.CostFunc(func(*http.Request) (keytally.Cost, error) { return keytally.Cost{}, errors.New("failed") })
	guarded("/failing-cost", client, keytally.GuardOptions{Cost: failing}, identity)
	for path, handler := range holders() {
		hold := &keytally.HoldOptions{ExpiresIn: 600}
		guarded("/hold/"+path, client, keytally.GuardOptions{Cost: keytally.Cost{Usage: "10"}, Hold: hold}, handler)
	}
	app.HandleFunc("/errors", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"errors": told.take()})
	})
	app.HandleFunc("/kept", func(w http.ResponseWriter, _ *http.Request) {
		size, why := open.Len(), []string{}
		if size == 0 {
			why = lost.take()
		}
		answer(w, map[string]any{"size": size, "away": open.Unavailable(), "lost": why})
	})
	app.HandleFunc("/ready", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]bool{"ready": client.Ready(r.Context())})
	})
	app.HandleFunc("/workspace", func(w http.ResponseWriter, r *http.Request) {
		_, err := client.GetWorkspace(r.Context(), r.URL.Query().Get("id"))
		answer(w, outcomeOf("", err))
	})
	app.HandleFunc("/verify", func(w http.ResponseWriter, r *http.Request) { verifyAll(client, w, r) })
	app.HandleFunc("/batch", func(w http.ResponseWriter, r *http.Request) {
		var asked []keytally.BatchedVerification
		must(json.NewDecoder(r.Body).Decode(&asked))
		found, err := client.VerifyBatch(r.Context(), asked)
		must(err)
		outcomes := []any{}
		for _, one := range found.Results {
			if one.Decision == nil {
				outcomes = append(outcomes, errorWith(int(one.Error.Code)/100, int(one.Error.Code)))
			} else {
				outcomes = append(outcomes, outcomeOf(one.Status, nil))
			}
		}
		answer(w, outcomes)
	})
	app.HandleFunc("/client", func(w http.ResponseWriter, r *http.Request) {
		var options keytally.Options
		must(json.NewDecoder(r.Body).Decode(&options))
		_, err := keytally.New(options)
		answer(w, messageOf(err))
	})
	app.HandleFunc("/guard", func(w http.ResponseWriter, r *http.Request) {
		var given struct {
			Cost         *string
			OutOfCredits *int64
		}
		must(json.NewDecoder(r.Body).Decode(&given))
		options := keytally.GuardOptions{}
		if given.Cost != nil {
			options.Cost = keytally.Cost{Usage: *given.Cost}
		}
		if given.OutOfCredits != nil {
			options.OutOfCredits = int(*given.OutOfCredits)
		}
		_, err := client.Guard(options)
		answer(w, messageOf(err))
	})
	return app
}

// holders are the handlers behind a guard that holds.
func holders() map[string]http.HandlerFunc {
	atEnd := func(usage string) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			keytally.HoldOf(r.Context()).CaptureAtEnd(func() string { return usage })
		}
	}
	capture := func(r *http.Request, usage string) any {
		captured, err := keytally.HoldOf(r.Context()).Capture(r.Context(), usage)
		if err != nil || captured == nil {
			return nil
		}
		return captured.Capture.Usage
	}
	// Captures one after the other, and answers with what the last of them did.
	captures := func(usages ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var last any
			for _, usage := range usages {
				last = capture(r, usage)
			}
			answer(w, map[string]any{"captured": last})
		}
	}
	return map[string]http.HandlerFunc{
		"capture":         captures("3"),
		"refused":         captures("much"),
		"refused-capture": captures("much", "3"),
		"capture-refused": captures("3", "much"),
		"empty-at-end":    atEnd(""),
		"forgotten":       func(http.ResponseWriter, *http.Request) {},
		"fail":            func(http.ResponseWriter, *http.Request) { panic("failed") },
		"at-end":          atEnd("4"),
		"nothing-at-end":  atEnd("0.000000"),
		"fail-at-end":     atEnd("much"),
		"stream":          stream,
		"stream-at-end": func(w http.ResponseWriter, r *http.Request) {
			atEnd("4")(w, r)
			stream(w, r)
		},
	}
}

func costOfDocument(r *http.Request) (keytally.Cost, error) {
	switch n := r.URL.Query().Get("n"); n {
	case "free":
		return keytally.Cost{Usage: "0"}, nil
	case "":
		return keytally.Cost{Usage: "1", UsageName: "requests"}, nil
	default:
		return keytally.Cost{Usage: n, UsageName: "requests"}, nil
	}
}

func identity(w http.ResponseWriter, r *http.Request) {
	answer(w, keytally.IdentityOf(r.Context()))
}

func stream(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, "line\n"); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		time.Sleep(20 * time.Millisecond)
	}
}

// verifyAll verifies all that the body lists, at once.
func verifyAll(client *keytally.Client, w http.ResponseWriter, r *http.Request) {
	var asked []keytally.Verification
	must(json.NewDecoder(r.Body).Decode(&asked))
	outcomes := make([]any, len(asked))
	var all sync.WaitGroup
	for i := range asked {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			decision, err := client.Verify(r.Context(), asked[i])
			if err != nil {
				outcomes[i] = outcomeOf("", err)
			} else {
				outcomes[i] = outcomeOf(decision.Status, nil)
			}
		}(i)
	}
	all.Wait()
	answer(w, outcomes)
}

// outcomeOf is a status, or an error; null for one of a call that was not sent.
func outcomeOf(status keytally.Status, err error) any {
	var failed *keytally.Error
	switch {
	case errors.As(err, &failed):
		return errorWith(failed.Status, failed.Code)
	case err != nil:
		return map[string]any{"error": nil}
	default:
		return map[string]any{"status": status}
	}
}

func errorWith(status, code int) any {
	return map[string]any{"error": map[string]int{"status": status, "code": code}}
}

func messageOf(err error) any {
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return map[string]any{"error": nil}
}

func whyOf(lost keytally.Lost) string {
	var failed *keytally.Error
	switch {
	case errors.As(lost.Err, &failed):
		return strconv.Itoa(failed.Code)
	case errors.Is(lost.Err, keytally.ErrDoubtful):
		return "DOUBTFUL"
	default:
		return string(lost.Status)
	}
}

// recovering answers 500 for a handler that panics, as most programs do.
func recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	must(json.NewEncoder(w).Encode(value))
}

func newClient(token string, patience time.Duration) *keytally.Client {
	client, err := keytally.New(keytally.Options{URL: os.Getenv("VERIFY_URL"), Token: token, VerifyTimeout: patience})
	must(err)
	return client
}

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}
