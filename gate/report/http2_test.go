package report

import (
	"strings"
	"testing"
)

// What was measured over HTTP/2 says so on every surface that people read, and nothing else does.
func TestHTTP2IsMarked(t *testing.T) {
	const mark = "HTTP/2, one connection for all streams"
	for _, over2 := range []bool{false, true} {
		for _, c := range []scenario{{"pass", aRun(4), aPass(4)}, loadScenario()} {
			c.run.Declared.Load.HTTP2 = over2
			for _, s := range surfaces() {
				if s.ext == "json" {
					continue
				}
				// Text is wrapped.
				got := strings.Join(strings.Fields(render(t, s, c)), " ")
				if strings.Contains(got, mark) != over2 {
					t.Errorf("%s as %s over HTTP/2 %t:\n%s", c.name, s.ext, over2, got)
				}
			}
		}
	}
}
