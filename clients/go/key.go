package keytally

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode"
)

// KeysOf gives the API keys that a request carries; it should be one. A key may come as Authorization: Bearer, as X-Api-Key, or in
// Authorization: Basic as the user name or the password, with the other one empty. The same key twice counts as one.
func KeysOf(header http.Header) []string {
	var found []string
	// A header that was sent more than once holds all that it was sent with.
	for _, keys := range header["X-Api-Key"] {
		for _, key := range strings.Split(keys, ",") {
			found = append(found, strings.TrimSpace(key))
		}
	}
	for _, authorization := range header["Authorization"] {
		found = append(found, keysInAuthorization(strings.TrimSpace(authorization))...)
	}
	var keys []string
	known := map[string]bool{"": true}
	for _, key := range found {
		if !known[key] {
			keys = append(keys, key)
		}
		known[key] = true
	}
	return keys
}

func keysInAuthorization(authorization string) []string {
	end := strings.IndexFunc(authorization, unicode.IsSpace)
	if end < 0 {
		return nil
	}
	credentials := strings.TrimSpace(authorization[end:])
	switch strings.ToLower(authorization[:end]) {
	case "bearer":
		return []string{credentials}
	case "basic":
		return userAndPassword(credentials)
	}
	return nil
}

// Some senders leave the padding out, so none is asked for. One that is wrong is no base64, as for the other clients and keytally's
// own gateway, which read as browsers do.
func userAndPassword(encoded string) []string {
	digits := strings.Join(strings.Fields(encoded), "")
	if len(digits)%4 == 0 {
		digits = strings.TrimSuffix(strings.TrimSuffix(digits, "="), "=")
	}
	text, err := base64.RawStdEncoding.DecodeString(digits)
	if err != nil {
		return nil
	}
	user, password, hasColon := strings.Cut(string(text), ":")
	if !hasColon {
		return nil
	}
	return []string{user, password}
}

// isPrintable says whether a text has visible ASCII characters alone, at least one and at most so many.
func isPrintable(text string, most int) bool {
	if text == "" || len(text) > most {
		return false
	}
	for i := 0; i < len(text); i++ {
		if text[i] < '!' || text[i] > '~' {
			return false
		}
	}
	return true
}
