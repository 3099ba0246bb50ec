package keytally

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"
)

func TestKeysOfFindsTheKeysInThreePlaces(t *testing.T) {
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, one := range []struct {
		header http.Header
		keys   string
	}{
		{http.Header{}, "[]"},
		{http.Header{"Authorization": {"Bearer a"}}, "[a]"},
		{http.Header{"Authorization": {" bEARER \t a "}}, "[a]"},
		{http.Header{"Authorization": {"Bearer"}}, "[]"},
		{http.Header{"Authorization": {"Digest a"}}, "[]"},
		{http.Header{"Authorization": {"Bearer a b"}}, "[a b]"},
		{http.Header{"X-Api-Key": {"a"}}, "[a]"},
		{http.Header{"X-Api-Key": {"a, b,a"}}, "[a b]"},
		{http.Header{"X-Api-Key": {"a", "b"}}, "[a b]"},
		{http.Header{"Authorization": {"Bearer a", "Bearer b"}}, "[a b]"},
		{http.Header{"Authorization": {"Bearer a"}, "X-Api-Key": {"a"}}, "[a]"},
		{http.Header{"Authorization": {basic("a:")}}, "[a]"},
		{http.Header{"Authorization": {basic(":a")}}, "[a]"},
		{http.Header{"Authorization": {basic("a:b")}}, "[a b]"},
		{http.Header{"Authorization": {basic("no colon")}}, "[]"},
		{http.Header{"Authorization": {"Basic !"}}, "[]"},
		{http.Header{"Authorization": {"Basic YTo"}}, "[a]"},
		{http.Header{"Authorization": {"Basic YTo="}}, "[a]"},
		{http.Header{"Authorization": {"Basic YT o="}}, "[a]"},
		{http.Header{"Authorization": {"Basic YTo=="}}, "[]"},
		{http.Header{"Authorization": {"Basic YTo==="}}, "[]"},
		{http.Header{"Authorization": {"Basic YTpi="}}, "[]"},
		{http.Header{"Authorization": {"Basic YTpiY"}}, "[]"},
		{http.Header{"Authorization": {"Basic Y"}}, "[]"},
	} {
		if keys := fmt.Sprint(KeysOf(one.header)); keys != one.keys {
			t.Errorf("%v holds %s, and not %s", one.header, one.keys, keys)
		}
	}
}
