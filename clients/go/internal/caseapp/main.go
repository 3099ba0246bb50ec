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
	open, err := client.KeepUsage(keytally.KeepUsageOptions{OnLost: onLost, AtMost: 200, Pause: 50 * time.Millisecond})
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
	much := keytally.CostFunc(func(*http.Request) (keytally.Cost, error) { return keytally.Cost{Usage: "much"}, nil })
	guarded("/wrong-cost", client, keytally.GuardOptions{Cost: much}, identity)
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
	app.HandleFunc("/verify", func(w http.ResponseWriter, r *http.Request) { verifyAll(client, w, r) })
	return app
}

// holders are the handlers behind a guard that holds.
func holders() map[string]http.HandlerFunc {
	atEnd := func(usage string) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			keytally.HoldOf(r.Context()).CaptureAtEnd(func() string { return usage })
		}
	}
	return map[string]http.HandlerFunc{
		"capture": func(w http.ResponseWriter, r *http.Request) {
			captured, err := keytally.HoldOf(r.Context()).Capture(r.Context(), "3")
			must(err)
			if captured == nil {
				answer(w, map[string]any{"captured": nil})
			} else {
				answer(w, map[string]any{"captured": captured.Capture.Usage})
			}
		},
		"forgotten":      func(http.ResponseWriter, *http.Request) {},
		"fail":           func(http.ResponseWriter, *http.Request) { panic("failed") },
		"at-end":         atEnd("4"),
		"nothing-at-end": atEnd("0.000000"),
		"fail-at-end":    atEnd("much"),
		"stream":         stream,
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
	outcomes := make([]map[string]any, len(asked))
	var all sync.WaitGroup
	for i := range asked {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			decision, err := client.Verify(r.Context(), asked[i])
			var failed *keytally.Error
			switch {
			case errors.As(err, &failed):
				outcomes[i] = map[string]any{"error": map[string]int{"status": failed.Status, "code": failed.Code}}
			case err != nil:
				outcomes[i] = map[string]any{"error": err.Error()}
			default:
				outcomes[i] = map[string]any{"status": decision.Status}
			}
		}(i)
	}
	all.Wait()
	answer(w, outcomes)
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
