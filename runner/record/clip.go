package record

import (
	"bytes"
	"unicode/utf8"
)

// maxText is the longest text a reader takes, bytes. Writers shorten to it, so that what we write we can read.
const maxText = 4096

const ellipsis = "…"

// clip shortens a text to maxText, at a character.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := maxText - len(ellipsis)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + ellipsis
}

// clipStrings shortens the strings of valid JSON to maxText bytes as encoded.
func clipStrings(data []byte) []byte {
	var out bytes.Buffer
	for {
		open := bytes.IndexByte(data, '"')
		if open < 0 {
			break
		}
		n := stringLen(data[open:])
		text := data[open+1 : open+n-1]
		out.Write(data[:open+1])
		if cut := cutAt(text); cut < len(text) {
			out.Write(text[:cut])
			out.WriteString(ellipsis)
		} else {
			out.Write(text)
		}
		out.WriteByte('"')
		data = data[open+n:]
	}
	out.Write(data)
	return out.Bytes()
}

// stringLen is the length of the JSON string that data begins with, quotes included.
func stringLen(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// cutAt is where to cut an encoded string: its length if it is short enough, else a place between two characters.
func cutAt(text []byte) int {
	if len(text) <= maxText {
		return len(text)
	}
	cut := 0
	for i := 0; i <= maxText-len(ellipsis); {
		cut = i
		_, size := utf8.DecodeRune(text[i:])
		if text[i] == '\\' {
			size = 2
			if text[i+1] == 'u' {
				size = 6
			}
		}
		i += size
	}
	return cut
}
