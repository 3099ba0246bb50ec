// Command stream streams words as a language model streams tokens, and charges those that were streamed: a thousand cost one credit.
// It reads KEYTALLY_VERIFY_URL, KEYTALLY_TOKEN and PORT (default 3000).
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"keytally.dev/keytally"
)

const mostTokens = 1000

func main() {
	client, err := keytally.New(keytally.Options{
		URL:   os.Getenv("KEYTALLY_VERIFY_URL"),
		Token: os.Getenv("KEYTALLY_TOKEN"),
		// A stream waits for its hold rather than fail.
		VerifyTimeout: 10 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	guard, err := client.Guard(keytally.GuardOptions{
		// The most that an answer may cost.
		Cost: keytally.CostFunc(func(r *http.Request) (keytally.Cost, error) {
			return keytally.Cost{Usage: creditsFor(tokensOf(r)), UsageName: "tokens"}, nil
		}),
		// For longer than the longest answer takes.
		Hold: &keytally.HoldOptions{ExpiresIn: 600},
	})
	if err != nil {
		log.Fatal(err)
	}
	port := os.Getenv("PORT")
	if port == "" {
		port = "3000"
	}
	server := &http.Server{Addr: ":" + port, Handler: guard(http.HandlerFunc(complete)), ReadHeaderTimeout: 10 * time.Second}
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	go func() {
		log.Print("listening on ", port)
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	<-stop.Done()
	ctx, end := context.WithTimeout(context.Background(), 30*time.Second)
	defer end()
	_ = server.Shutdown(ctx)
	// What was streamed must be charged before the program ends.
	if err := client.Drain(ctx); err != nil {
		log.Fatal(err)
	}
}

// complete answers GET /?prompt=…&max_tokens=…
func complete(w http.ResponseWriter, r *http.Request) {
	var tokens atomic.Int64
	keytally.HoldOf(r.Context()).CaptureAtEnd(func() string { return creditsFor(tokens.Load()) })
	w.Header().Set("Content-Type", "text/event-stream")
	for _, word := range strings.Fields(r.URL.Query().Get("prompt")) {
		if tokens.Load() == tokensOf(r) {
			break
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", word); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		tokens.Add(1)
		select {
		case <-time.After(20 * time.Millisecond):
		case <-r.Context().Done():
			// The end client went away: what was streamed until now is paid for.
			return
		}
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func tokensOf(r *http.Request) int64 {
	tokens, err := strconv.ParseInt(r.URL.Query().Get("max_tokens"), 10, 64)
	if err != nil || tokens < 1 || tokens > mostTokens {
		return mostTokens
	}
	return tokens
}

// creditsFor is exact: credits have up to six decimals.
func creditsFor(tokens int64) string {
	return fmt.Sprintf("%d.%03d", tokens/1000, tokens%1000)
}
