package keytally

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// KeepUsageOptions are what KeepUsage can be told.
type KeepUsageOptions struct {
	// OnLost is called with usage that nobody was debited for, and the reason. Should it panic, that is logged.
	OnLost func(Lost)
	// AtMost is how many calls may be kept; beyond that, requests are refused. Default 10,000.
	AtMost int
}

// Lost is usage of a request that passed, and that nobody was debited for.
type Lost struct {
	Verification Verification
	// Status is the one with which keytally refused the key; "" for the two other reasons.
	Status Status
	// Err is the error with which keytally refused the call, or ErrDoubtful.
	Err error
}

// ErrDoubtful says that an earlier attempt may have been debited, and keytally can no longer tell.
var ErrDoubtful = errors.New("keytally: it is not known whether this usage was debited")

// KeptUsage keeps, in memory, the usage of requests that passed while keytally was unavailable, and sends it again until it is decided.
type KeptUsage struct {
	client        *Client
	options       KeepUsageOptions
	size          atomic.Int64
	isUnavailable atomic.Bool
	// Who has it asks for all whether keytally is back.
	returning sync.Mutex
}

const (
	// Less than the 60 s of an Idempotency-Key, after which a call would be debited again: also with the last of its repetitions.
	repeatableFor  = 50 * time.Second
	longestAttempt = 9 * time.Second
	keptPause      = time.Second
)

// KeepUsage makes what GuardOptions.Open takes.
func (c *Client) KeepUsage(options KeepUsageOptions) (*KeptUsage, error) {
	if options.OnLost == nil {
		return nil, errors.New("keytally KeepUsage: OnLost is missing; give a function that notes the usage it is called with")
	}
	options.AtMost = orDefault(options.AtMost, 10_000)
	return &KeptUsage{client: c, options: options}, nil
}

// Len is how many calls are kept.
func (k *KeptUsage) Len() int { return int(k.size.Load()) }

// Unavailable says whether nobody of keytally answered when last asked: until it is back, requests do not wait for it.
func (k *KeptUsage) Unavailable() bool { return k.isUnavailable.Load() }

// Flush waits until the kept calls are decided, or ctx ends, and gives how many are left. Call it before the program ends.
func (k *KeptUsage) Flush(ctx context.Context) int {
	for k.Len() > 0 && sleep(ctx, 10*time.Millisecond) == nil {
	}
	return k.Len()
}

// keep keeps a call; false if there is no room for it. wasAnswered: keytally itself could not decide it, and is not unavailable.
func (k *KeptUsage) keep(call keptCall, wasAnswered bool) bool {
	if !wasAnswered {
		k.isUnavailable.Store(true)
	}
	if k.size.Add(1) > int64(k.options.AtMost) {
		k.size.Add(-1)
		return false
	}
	go func() {
		defer k.size.Add(-1)
		var lost *Lost
		for lost == nil {
			time.Sleep(keptPause)
			k.awaitReturn()
			lost = k.decide(&call)
		}
		if lost.Status != StatusValid {
			safely("OnLost", func() { k.options.OnLost(*lost) })
		}
	}()
	return true
}

func (k *KeptUsage) awaitReturn() {
	k.returning.Lock()
	defer k.returning.Unlock()
	for k.Unavailable() && !k.client.Ready(context.Background()) {
		time.Sleep(keptPause)
	}
	k.isUnavailable.Store(false)
}

// decide sends a call, unless that is too late, and gives what became of it; nil if that is nothing now.
func (k *KeptUsage) decide(call *keptCall) *Lost {
	lost := &Lost{Verification: call.verification, Err: ErrDoubtful}
	if !call.sentAt.IsZero() && time.Since(call.sentAt) >= repeatableFor {
		return lost
	}
	decision, err := call.send(context.Background(), k.client, WithTimeout(longestAttempt))
	var failed *Error
	switch {
	case errors.As(err, &failed) && failed.Code == 0:
		k.isUnavailable.Store(true)
		return nil
	case failed != nil && failed.passing():
		return nil
	case err == nil && decision.Status == StatusRateLimited:
		call.sentAt = time.Time{}
		return nil
	// Before these three alone keytally looks for what an earlier attempt debited.
	case err == nil && (call.sentAt.IsZero() || decision.Status == StatusValid || decision.Status == StatusUsageLimited):
		lost.Status, lost.Err = decision.Status, nil
	case call.sentAt.IsZero():
		lost.Err = err
	}
	return lost
}

// keptCall is a verification without an answer. sentAt is set once keytally may have debited it.
type keptCall struct {
	verification   Verification
	idempotencyKey string
	sentAt         time.Time
}

// send verifies a call, and notes when keytally may have debited it.
func (k *keptCall) send(ctx context.Context, client *Client, options ...CallOption) (*Decision, error) {
	began := time.Now()
	decision, err := client.Verify(ctx, k.verification, append(options, WithIdempotencyKey(k.idempotencyKey))...)
	var failed *Error
	if k.sentAt.IsZero() && errors.As(err, &failed) && failed.mayBeDebited {
		k.sentAt = began
	}
	return decision, err
}
