package keytally

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
)

// Held is the hold of a request, until it is captured or released.
type Held struct {
	client  *Client
	id      string
	onError func(error)

	// Who captures reads; who settles it writes, and so waits for captures under way: keytally may refuse them.
	captures sync.RWMutex
	// Whether a capture was made, or may have been.
	isCaptured atomic.Bool
	costAtEnd  atomic.Pointer[func() string]
}

// HoldOf gives a handler behind a guard with a hold that of its request. It panics where no such guard ran before.
func HoldOf(ctx context.Context) *Held {
	found, ok := ctx.Value(passedKey{}).(*passed)
	if !ok || found.hold == nil {
		panic("keytally.HoldOf: no guard with a hold ran before this handler")
	}
	return found.hold
}

// Capture debits what a request did cost, and releases the rest. Call it before the handler ends: then what was not captured is
// released. An end client that leaves does not end the call: its ctx gives values alone. What keytally refuses settles nothing. Of a
// key without a billing record nothing is held, and nil comes back.
func (h *Held) Capture(ctx context.Context, usage string) (captured *CaptureHoldResult, err error) {
	if h.id == "" {
		return nil, nil
	}
	h.captures.RLock()
	defer h.captures.RUnlock()
	captured, err = h.client.CaptureHold(detached{ctx}, CaptureHoldRequest{HoldID: h.id, Usage: usage})
	var failed *Error
	if !errors.As(err, &failed) || !failed.refused() {
		h.isCaptured.Store(true)
	}
	return captured, err
}

// CaptureAtEnd captures once the handler has ended, also because the end client went away or the handler panicked: for streams, whose
// cost grows until then. cost is called then; a cost of 0 releases. Should it fail, the guard's OnError hears of it, and the hold ends
// by itself.
func (h *Held) CaptureAtEnd(cost func() string) {
	h.costAtEnd.Store(&cost)
}

// end captures the cost at the end, or releases, of a handler that has ended. The answer's end must not wait for it.
func (h *Held) end() {
	if h.id == "" {
		return
	}
	h.client.settling.Add(1)
	go func() {
		defer h.client.settling.Done()
		h.captures.Lock()
		defer h.captures.Unlock()
		if h.isCaptured.Load() {
			return
		}
		if err := h.captureOrRelease(); err != nil {
			safely("OnError", func() { h.onError(err) })
		}
	}()
}

func (h *Held) captureOrRelease() error {
	usage, err := h.cost()
	if err != nil {
		return err
	}
	if zero.MatchString(usage) {
		_, err = h.client.ReleaseHold(context.Background(), ReleaseHoldRequest{HoldID: h.id})
	} else {
		_, err = h.client.CaptureHold(context.Background(), CaptureHoldRequest{HoldID: h.id, Usage: usage})
	}
	return err
}

// A function that panics must not end the program: no server waits for it any more.
func (h *Held) cost() (usage string, err error) {
	cost := h.costAtEnd.Load()
	if cost == nil {
		return "0", nil
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the function given to CaptureAtEnd panicked: %v", cause)
		}
	}()
	return (*cost)(), nil
}

// Nothing else is: a cost of "" is a mistake, which keytally refuses.
var zero = regexp.MustCompile(`^0+(\.0+)?$`)
