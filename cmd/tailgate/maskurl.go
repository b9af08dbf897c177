package main

import (
	"net/url"
	"strings"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

// stars stand in the place of what is not shown.
const stars = "***"

// maskURL hides what a URL may carry beyond an address: userinfo, the values of its query and its fragment. The result is one
// line, a URL of the same address again, and masked already: masking it changes nothing.
func maskURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	user := u.User != nil
	u.User, u.RawQuery = nil, maskQuery(u.RawQuery)
	if u.Fragment != "" {
		u.Fragment, u.RawFragment = stars, ""
	}
	if at := strings.LastIndex(u.Opaque, "@"); at >= 0 { // name:word@host without a scheme
		u.Opaque = stars + u.Opaque[at:]
	}
	text := u.String()
	if user {
		// As part of the URL they would be escaped: people are to read stars. Before the host there is no other double slash.
		text = strings.Replace(text, "//", "//"+stars+"@", 1)
	}
	return proc.Clean(text, len(text))
}

// maskQuery keeps the keys of a query in their order. A word without a value may be the secret itself.
func maskQuery(query string) string {
	var pairs []string
	for pair := range strings.SplitSeq(query, "&") {
		key, _, valued := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(key)
		switch {
		case pair == "":
		case !valued || err != nil:
			pairs = append(pairs, stars)
		default:
			pairs = append(pairs, url.QueryEscape(name)+"="+stars)
		}
	}
	return strings.Join(pairs, "&")
}
