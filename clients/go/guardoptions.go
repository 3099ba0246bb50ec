package keytally

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Coster says what a request costs: a Cost, for every request the same, or a CostFunc.
type Coster interface {
	costOf(*http.Request) (Cost, error)
}

// Cost is what a request costs, as decimal text, and the name under which its usage is counted ("" is keytally's default).
type Cost struct{ Usage, UsageName string }

// CostFunc says what a request costs. It must give a cost for every request: one without Usage is an error, never free.
type CostFunc func(*http.Request) (Cost, error)

func (c Cost) costOf(*http.Request) (Cost, error) { return c, nil }

func (f CostFunc) costOf(r *http.Request) (Cost, error) { return f(r) }

// GuardOptions are what a guard can be told. Functions are called for each request, at most one of each pair may be given.
type GuardOptions struct {
	// Cost is what a request costs; default nothing.
	Cost Coster
	// Hold holds the cost as the most that the request may cost, for HoldOf in the handler. A handler that ends without a capture
	// releases it. Not together with Open.
	Hold *HoldOptions
	// HoldFunc does so for each request by itself.
	HoldFunc func(*http.Request) (HoldOptions, error)
	// Scopes are those that the key must have been granted; default none.
	Scopes []WantedScope
	// ScopesFunc gives those for a request: an empty list for none. nil is an error.
	ScopesFunc func(*http.Request) ([]WantedScope, error)
	// Route is recorded with the usage; default the method and the path.
	Route func(*http.Request) string
	// IP is the end client's address, for allow lists; default that of the connection. Behind a proxy, read the header that it sets.
	IP func(*http.Request) string
	// IdempotencyKey is the one under which a request is debited; default a new one, and so for "". Requests of an API key with the same
	// one are debited once within 60 s: give it only where a repeated request does no new work.
	IdempotencyKey func(*http.Request) string
	// OutOfCredits may be 429: who is out of credits, or has no billing record, is refused with it and Retry-After; default 402 or 403
	// without.
	OutOfCredits int
	// RefusalBody makes the body of a refusal, such as ProblemJSON; default {"error": …}.
	RefusalBody func(Refusal, *http.Request) (contentType string, body []byte)
	// Open lets requests pass while keytally is unavailable, and keeps their usage; default: they are refused with 503.
	Open *KeptUsage
	// OnError is called when a request is refused with 500 because of a mistake on this side (a wrong access token, a wrong cost), or
	// with 503 because keytally is unavailable. Default: the standard logger, at most one line a second.
	OnError func(error, *http.Request)
}

// check finds what is wrong and not a function: a program with a wrong cost does not start.
func (o *GuardOptions) check() error {
	if cost, ok := o.Cost.(Cost); ok && cost.check() != nil {
		return cost.check()
	}
	switch {
	case o.OutOfCredits != 0 && o.OutOfCredits != http.StatusTooManyRequests:
		return fmt.Errorf("OutOfCredits is %d; it must be 429, or left out for 402 and 403", o.OutOfCredits)
	case o.Hold != nil && o.HoldFunc != nil:
		return errors.New("Hold is there beside HoldFunc; give one of them")
	case o.Scopes != nil && o.ScopesFunc != nil:
		return errors.New("Scopes is there beside ScopesFunc; give one of them")
	case o.holds() && o.Open != nil:
		return errors.New("Hold is there beside Open, which keeps costs that were not held")
	}
	return nil
}

func (o *GuardOptions) holds() bool { return o.Hold != nil || o.HoldFunc != nil }

// verification is what keytally is asked for a request.
func (o *GuardOptions) verification(key string, r *http.Request) (Verification, error) {
	asked := Verification{Key: key, Billing: &VerificationBilling{Usage: "0"}, Route: o.routeOf(r), IP: o.addressOf(r)}
	if o.Cost != nil {
		cost, err := o.Cost.costOf(r)
		if err == nil {
			err = cost.check()
		}
		if err != nil {
			return asked, err
		}
		asked.Billing.Usage, asked.Billing.UsageName = cost.Usage, cost.UsageName
	}
	asked.Billing.Hold = o.Hold
	if o.HoldFunc != nil {
		hold, err := o.HoldFunc(r)
		if err != nil {
			return asked, err
		}
		asked.Billing.Hold = &hold
	}
	asked.RequestedScopes = o.Scopes
	if o.ScopesFunc != nil {
		scopes, err := o.ScopesFunc(r)
		if err == nil && scopes == nil {
			err = errors.New("scopes is nil; it must be a list such as []keytally.WantedScope{{Representation: \"documents\", Read: true}}")
		}
		asked.RequestedScopes = scopes
		return asked, err
	}
	return asked, nil
}

// idempotencyKeyOf gives the Idempotency-Key that the options give a request; "": a new one.
func (o *GuardOptions) idempotencyKeyOf(r *http.Request) (string, error) {
	given := ""
	if o.IdempotencyKey != nil {
		given = o.IdempotencyKey(r)
	}
	if given != "" && !isPrintable(given, longestHeader) {
		return "", fmt.Errorf("idempotencyKey is %.100q; it must be 1 to 255 visible ASCII characters", given)
	}
	return given, nil
}

const (
	longestRoute = 1024
	mostCredits  = 9_000_000_000
)

var decimal = regexp.MustCompile(`^\d{1,10}(\.\d{1,6})?$`)

func (c Cost) check() error {
	credits, err := strconv.ParseFloat(c.Usage, 64)
	if err != nil || credits > mostCredits || !decimal.MatchString(c.Usage) {
		return fmt.Errorf(`cost is %.100q; it must be decimal text such as "1" or "0.25"`, c.Usage)
	}
	return nil
}

// routeOf cuts at a "/": keytally hides a secret that is whole, and could not know half of one.
func (o *GuardOptions) routeOf(r *http.Request) string {
	route := ""
	if o.Route != nil {
		route = o.Route(r)
	} else {
		// Under http.StripPrefix the URL lacks the path where the handler is mounted.
		path, _, _ := strings.Cut(r.RequestURI, "?")
		if path == "" {
			path = r.URL.EscapedPath()
		}
		route = r.Method + " " + path
	}
	printable := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, route)
	if len(printable) <= longestRoute {
		return printable
	}
	if slash := strings.LastIndexByte(printable[:longestRoute], '/'); slash >= 0 {
		return printable[:slash+1]
	}
	return printable[:longestRoute]
}

// addressOf gives an address that keytally accepts. Where there is none, or a header holds something else, it is 0.0.0.0, which only
// a list that allows every address contains. If it were left out, keytally would check this server's own address.
func (o *GuardOptions) addressOf(r *http.Request) string {
	text := ""
	if o.IP != nil {
		text = o.IP(r)
	} else if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		text = host
	}
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return text
	}
	return "0.0.0.0"
}
