package gate

import (
	"os"
	"strings"
	"testing"
)

// The page on validity names every rule and warning about the load generator.
func TestValidityPageIsWhole(t *testing.T) {
	text, err := os.ReadFile("../docs/validity.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, r := range clientRules() {
		for _, id := range []string{r.void, r.warn} {
			if id != "" && !strings.Contains(page, "`"+id+"`") {
				t.Errorf("docs/validity.md does not name %s", id)
			}
		}
		if (r.warn == "") != (r.text == "") {
			t.Errorf("rule %s: a warning needs an id and a text", r.void)
		}
	}
	for _, id := range []string{ClientLimited, ClientExplains, FollowsBuild} {
		if !strings.Contains(page, "`"+id+"`") {
			t.Errorf("docs/validity.md does not name %s", id)
		}
	}
}
