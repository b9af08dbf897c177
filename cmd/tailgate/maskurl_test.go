package main

import (
	"net/url"
	"strings"
	"testing"
	"unicode"
)

// maskedURLs are URLs and how they are shown; hunter2 is what must not be seen.
var maskedURLs = map[string]string{
	"":                         "",
	"http://127.0.0.1:8000":    "http://127.0.0.1:8000",
	"http://a.example/v1?":     "http://a.example/v1?",
	"https://a.example/v1/x y": "https://a.example/v1/x%20y",
	// userinfo
	"http://hunter2@a.example":             "http://***@a.example",
	"http://me:hunter2@a.example:81/v1":    "http://***@a.example:81/v1",
	"http://me:hunter2@[::1]:81//v1":       "http://***@[::1]:81//v1",
	"//me:hunter2@a.example/v1":            "//***@a.example/v1",
	"http://me:hunter2@/v1":                "http://***@/v1",
	"me:hunter2@a.example/v1":              "me:***@a.example/v1",
	"me:a@hunter2@a.example/v1":            "me:***@a.example/v1",
	"http://me:hunt%65r2hunter2@a.example": "http://***@a.example",
	// queries
	"http://a.example/?key=hunter2":                             "http://a.example/?key=***",
	"http://a.example/?b=hunter2&a=hunter2&b=hunter2":           "http://a.example/?b=***&a=***&b=***",
	"http://a.example?key=hunter2=hunter2":                      "http://a.example?key=***",
	"http://a.example/?hunter2":                                 "http://a.example/?***",
	"http://a.example/?key=&&hunter2&":                          "http://a.example/?key=***&***",
	"http://a.example/?%zzhunter2=1&key=%zzhunter2":             "http://a.example/?***&key=***",
	"http://a.example/?a+b=hunter2&c%3Dd=hunter2;hunter2":       "http://a.example/?a+b=***&c%3Dd=***",
	"http://u:hunter2@a.example/v1?k=hunter2&l=hunter2#hunter2": "http://***@a.example/v1?k=***&l=***#***",
	"http://a.example/#token=hunter2":                           "http://a.example/#***",
	"mailto:a?k=hunter2":                                        "mailto:a?k=***",
	// hostile text
	"http://a.example/\nhunter2":                "(not a URL)",
	"http://a.example/?k=hunter2\r\nX: y":       "(not a URL)",
	"http://\x1b[31ma.example/?k=hunter2":       "(not a URL)",
	"http://a b.example/?k=hunter2":             "(not a URL)",
	"://hunter2":                                "(not a URL)",
	"http://[hunter2":                           "(not a URL)",
	"http://a.example/\u202e\u2028?k=hunter2":   "http://a.example/%E2%80%AE%E2%80%A8?k=***",
	"http://a.example/?%0a%1b[2J\u202e=hunter2": "http://a.example/?%0A%1B%5B2J%E2%80%AE=***",
	"x:\u202e\u2028\xff?k=hunter2":              "x: \uFFFD?k=***",
	"http://a.example/%0A?\u2028hunter2":        "http://a.example/%0A?***",
}

func TestMaskURL(t *testing.T) {
	for raw, want := range maskedURLs {
		if got := maskURL(raw); got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
	}
}

// wantMasked holds what is true of every masked URL.
func wantMasked(t *testing.T, raw string) {
	t.Helper()
	masked := maskURL(raw)
	if strings.ContainsFunc(masked, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || unicode.Is(unicode.Bidi_Control, r) }) {
		t.Errorf("%q: %q is not one line of plain text", raw, masked)
	}
	before, err := url.Parse(raw)
	if err != nil {
		if masked != "(not a URL)" {
			t.Errorf("%q is no URL, masked it is %q", raw, masked)
		}
		return
	}
	after, err := url.Parse(masked)
	if err != nil {
		t.Fatalf("%q: masked it is no URL: %v", raw, err)
	}
	if after.Host != before.Host || after.Scheme != before.Scheme || before.Opaque == "" && after.Path != before.Path {
		t.Errorf("%q: masked it is another address, %q", raw, masked)
	}
	if again := maskURL(masked); again != masked {
		t.Errorf("%q: masked %q, twice %q", raw, masked, again)
	}
	for key, values := range after.Query() {
		for _, value := range values {
			if value != stars && (value != "" || key != stars) {
				t.Errorf("%q: %q shows %s=%s", raw, masked, key, value)
			}
		}
	}
	if user := after.User.String(); before.User != nil && user != url.User(stars).String() {
		t.Errorf("%q: %q shows the user %s", raw, masked, user)
	}
}

func TestMaskedURLsAreURLs(t *testing.T) {
	for raw := range maskedURLs {
		wantMasked(t, raw)
		if strings.Contains(maskURL(raw), "hunter2") {
			t.Errorf("%q: the secret is shown", raw)
		}
	}
}

func FuzzMaskURL(f *testing.F) {
	for raw := range maskedURLs {
		f.Add(raw)
	}
	f.Fuzz(wantMasked)
}
