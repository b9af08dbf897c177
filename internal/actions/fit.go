package actions

import (
	"slices"
	"strings"
)

// chunk is a piece of a report that is left out as a whole: a fold, or what stands between two blank lines.
type chunk struct {
	text string
	// fold is the title of a folded block; empty for an open one.
	fold string
}

// fit makes a report fit into budget, measured by size: folded blocks are left out from the last to the first, then open ones,
// but never the first line and the marker. What was left out is said. A report that fits is returned as it is.
func fit(markdown string, budget int, size func(string) int) string {
	if size(markdown) <= budget {
		return markdown
	}
	chunks, mark := split(markdown)
	var folds []string
	blocks := 0
	for _, folded := range []bool{true, false} {
		for i := len(chunks) - 1; i > 0; i-- {
			if (chunks[i].fold != "") != folded {
				continue
			}
			if folded {
				folds = append([]string{chunks[i].fold}, folds...)
			} else {
				blocks++
			}
			chunks = append(chunks[:i:i], chunks[i+1:]...)
			if text := joined(chunks, leftOut(folds, blocks), mark); size(text) <= budget {
				return text
			}
		}
	}
	return joined(chunks, leftOut(folds, blocks), mark)
}

// leftOut says what a reader does not see.
func leftOut(folds []string, blocks int) string {
	what := folds
	if blocks > 0 {
		what = append(slices.Clip(what), "the blocks after line 1 that did not fit")
	}
	return "Left out to fit: " + strings.Join(what, ", ") + ". The run folder has the full report."
}

func joined(chunks []chunk, note, mark string) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString(c.text)
		b.WriteString("\n\n")
	}
	b.WriteString(note)
	b.WriteString("\n")
	if mark != "" {
		b.WriteString(mark + "\n")
	}
	return b.String()
}

// split cuts a report of ours into chunks and its marker, if it has one. What stands in a fence is text, not markup.
func split(markdown string) (chunks []chunk, mark string) {
	lines := strings.Split(strings.TrimRight(markdown, "\n"), "\n")
	if last := len(lines) - 1; strings.HasPrefix(lines[last], markerStart) {
		mark, lines = lines[last], lines[:last]
	}
	var open []string
	var title, fence string
	depth := 0
	end := func() {
		if text := strings.Join(open, "\n"); strings.TrimSpace(text) != "" {
			chunks = append(chunks, chunk{text: text, fold: title})
		}
		open, title = nil, ""
	}
	for _, line := range lines {
		switch {
		case fence != "":
			if strings.HasPrefix(line, fence) && strings.Trim(line, "`") == "" {
				fence = ""
			}
		case strings.HasPrefix(line, "```"):
			fence = line[:len(line)-len(strings.TrimLeft(line, "`"))]
		case strings.HasPrefix(line, "<details>"):
			if depth == 0 {
				end()
				title = between(line, "<summary>", "</summary>")
			}
			depth++
		case line == "</details>" && depth > 0:
			open = append(open, line)
			if depth--; depth == 0 {
				end()
			}
			continue
		case line == "" && depth == 0:
			end()
			continue
		}
		open = append(open, line)
	}
	end()
	return chunks, mark
}

// between is what stands between two tags of ours; a fold without a title is still a fold.
func between(line, start, stop string) string {
	_, after, _ := strings.Cut(line, start)
	title, _, _ := strings.Cut(after, stop)
	if title == "" {
		return "a folded block"
	}
	return title
}
