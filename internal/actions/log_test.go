package actions

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
)

// obeyed lists what the runner would obey in a log, by its own rules: CR, LF and CR LF end a line; "::name::" counts at its
// start, after white space, and characters without a shape do not hide it; "##[name]" counts anywhere.
func obeyed(log string) []string {
	var found []string
	for line := range strings.Lines(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(log)) {
		line = strings.TrimRight(line, "\n")
		visible := strings.Map(func(r rune) rune {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				return -1
			}
			return r
		}, line)
		start := strings.TrimLeftFunc(visible, unicode.IsSpace)
		if rest, ok := strings.CutPrefix(start, "::"); ok && strings.Contains(rest, "::") {
			name, _, _ := strings.Cut(rest, "::")
			name, _, _ = strings.Cut(name, " ")
			if name != "group" && name != "endgroup" {
				found = append(found, line)
			}
		}
		if _, rest, ok := strings.Cut(visible, "##["); ok && strings.Contains(rest, "]") {
			found = append(found, line)
		}
	}
	return found
}

func TestLogHoldsNoCommand(t *testing.T) {
	for _, hostile := range []string{
		"::error::x", "  ::error file=a::x", "\t::add-mask::a", "a\r::error::x", "a\r\n::stop-commands::x", "##[error]x", "build ##[add-mask]a",
		"\u200d::error::x", "\u202e::error::x", "\u2028::error::x", "\x00::set-output name=a::b", "###[error]x", "::endgroup::x",
		":\x07:error::x", "#\u200b#[error]x", "\ufeff::error::x", "::group ::x\n::error::y", "\u00a0::error::x",
	} {
		if len(obeyed(hostile)) == 0 && !strings.HasPrefix(hostile, "::endgroup::") {
			t.Errorf("%q is harmless by the emulator: the test proves nothing", hostile)
		}
		if got := passed(t, hostile); len(obeyed(got)) > 0 {
			t.Errorf("%q became %q, which the runner obeys", hostile, got)
		}
	}
}

func TestLogKeepsPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb": "a\nb\n", "build: 12 ± 3 ms, größer\tdone\n": "build: 12 ± 3 ms, größer\tdone\n", "::group::slot 0 base (pair 1)\n": "::group::slot 0 base (pair 1)\n",
		"::endgroup::\n": "::endgroup::\n", "a\r\nb\n": "a\nb\n", "a\n\nb\n": "a\n\nb\n", "std::vector::size\n": "std::vector::size\n",
		"::error::x\n": "| ::error::x\n", "50 %\rdone\n": "50 %\ndone\n", "": "",
	} {
		if got := passed(t, in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	long := passed(t, strings.Repeat("x", 3*lineLimit))
	if strings.Count(long, "\n") < 3 || strings.Count(long, "x") != 3*lineLimit {
		t.Errorf("a long line became %d lines with %d characters", strings.Count(long, "\n"), strings.Count(long, "x"))
	}
}

// passed is text after its way through the log, in one piece and byte by byte; both must agree.
func passed(t *testing.T, text string) string {
	t.Helper()
	var once, bytewise bytes.Buffer
	for out, in := range map[*bytes.Buffer]io.Reader{&once: strings.NewReader(text), &bytewise: iotest.OneByteReader(strings.NewReader(text))} {
		l := NewLog(out)
		buf := make([]byte, 32<<10)
		for {
			n, err := in.Read(buf)
			if _, werr := l.Write(buf[:n]); werr != nil {
				t.Fatal(werr)
			}
			if errors.Is(err, io.EOF) {
				break
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if once.String() != bytewise.String() {
		t.Errorf("%q gives %q at once and %q byte by byte", text, once.String(), bytewise.String())
	}
	return once.String()
}

func FuzzLog(f *testing.F) {
	for _, seed := range []string{"::error::x", "a\r::x::", "##[x]", "\u200d::x::y", "::group::a", "\xff::x::y", " ##[a\n]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := obeyed(passed(t, text)); len(got) > 0 {
			t.Errorf("the runner obeys %q", got)
		}
	})
}
