package keytally

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
)

// Held is the hold of a request, until it is captured or released.
type Held struct {
	client  *Client
	id      string
	onError func(error)

	mutex sync.Mutex
	// How many captures are under way.
	capturing int
	// Whether a capture was made, or may have been.
	isCaptured bool
	// Whether the handler has ended, and its hold is yet to be settled.
	isEnding  bool
	costAtEnd func() string
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
	h.mutex.Lock()
	h.capturing++
	h.mutex.Unlock()
	defer func() {
		var failed *Error
		isRefused := errors.As(err, &failed) && failed.refused()
		h.mutex.Lock()
		defer h.mutex.Unlock()
		h.capturing--
		h.isCaptured = h.isCaptured || !isRefused
		h.settleIfOver()
	}()
	return h.client.CaptureHold(detached{ctx}, CaptureHoldRequest{HoldID: h.id, Usage: usage})
}

// CaptureAtEnd captures once the handler has ended, also because the end client went away or the handler panicked: for streams, whose
// cost grows until then. cost is called then; a cost of 0 releases. Should it fail, the guard's OnError hears of it, and the hold ends
// by itself.
func (h *Held) CaptureAtEnd(cost func() string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.costAtEnd = cost
}

// end settles the hold of a handler that has ended.
func (h *Held) end() {
	h.client.settling.Add(1)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.isEnding = true
	h.settleIfOver()
}

// settleIfOver captures the cost at the end, or releases, once the handler has ended and no capture is under way, which keytally may
// refuse. The answer's end must not wait for it. The mutex is held.
func (h *Held) settleIfOver() {
	if !h.isEnding || h.capturing > 0 {
		return
	}
	h.isEnding = false
	if h.isCaptured || h.id == "" {
		h.client.settling.Done()
		return
	}
	go func() {
		defer h.client.settling.Done()
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
	if isZero(usage) {
		_, err = h.client.ReleaseHold(context.Background(), ReleaseHoldRequest{HoldID: h.id})
	} else {
		_, err = h.client.CaptureHold(context.Background(), CaptureHoldRequest{HoldID: h.id, Usage: usage})
	}
	return err
}

// A function that panics must not end the program: no server waits for it any more.
func (h *Held) cost() (usage string, err error) {
	h.mutex.Lock()
	cost := h.costAtEnd
	h.mutex.Unlock()
	if cost == nil {
		return "0", nil
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the function given to CaptureAtEnd panicked: %v", cause)
		}
	}()
	return cost(), nil
}

// Nothing else is: a cost of "" is a mistake, which keytally refuses.
var zero = regexp.MustCompile(`^0+(\.0+)?$`)

func isZero(usage string) bool { return zero.MatchString(usage) }
