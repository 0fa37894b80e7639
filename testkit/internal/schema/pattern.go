package schema

import (
	"math"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// samples returns strings that are likely to match the patterns.
func (l *limits) samples() []variant {
	re, err := syntax.Parse(l.patterns[0].String(), syntax.Perl)
	if err != nil {
		return nil
	}
	shortest := int(min(l.minLength, longestString))
	var all []variant
	const ways = 4
	for pick := range ways {
		all = append(all, variant{kind: "pattern:" + string(rune('a'+pick)), value: sample(re, pick, shortest)})
	}
	const some = 8
	all = append(all, variant{kind: "pattern:longer", value: sample(re, 0, shortest+some)})
	longest := l.maxLength
	if longest == longestString {
		longest = longLength
	}
	if len(l.patterns) > 1 {
		all = append(all, variant{kind: "pattern:all", value: l.joined(shortest)})
	}
	return append(all, variant{kind: "longest", value: sample(re, 0, int(longest))}, variant{kind: "empty", value: ""})
}

// joined concatenates one part for each pattern. That suits patterns that restrict the beginning or the end.
func (l *limits) joined(shortest int) string {
	var parts []string
	for _, pattern := range l.patterns {
		if re, err := syntax.Parse(pattern.String(), syntax.Perl); err == nil {
			parts = append(parts, sample(re, 0, 0))
		}
	}
	missing := max(shortest-utf8.RuneCountInString(strings.Join(parts, "")), 0)
	return strings.Join(slices.Insert(parts, 1, strings.Repeat("a", missing)), "")
}

// sample writes a string for an expression, of the given length if its repetitions can be extended to it. Another pick
// chooses other alternatives and characters. The caller has to check the match: the expression may require word
// boundaries.
func sample(re *syntax.Regexp, pick, length int) string {
	short := &writer{pick: pick}
	short.write(re)
	n := utf8.RuneCountInString(short.b.String())
	if n >= length {
		return short.b.String()
	}
	stretched := &writer{pick: pick, spare: length - n}
	stretched.write(re)
	return stretched.b.String()
}

// A writer writes a string for an expression.
type writer struct {
	b     strings.Builder
	pick  int
	spare int // characters that repetitions may add
}

func (w *writer) write(re *syntax.Regexp) {
	if w.b.Len() > longestString {
		return
	}
	switch re.Op { //nolint:exhaustive // the others match without a character, or never
	case syntax.OpLiteral:
		w.b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		w.b.WriteRune(w.member(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		w.b.WriteByte("abcd"[w.pick%4])
	case syntax.OpCapture:
		w.write(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			w.write(sub)
		}
	case syntax.OpAlternate:
		w.write(re.Sub[w.pick%len(re.Sub)])
	case syntax.OpStar:
		w.repeat(re.Sub[0], 0, math.MaxInt)
	case syntax.OpPlus:
		w.repeat(re.Sub[0], 1, math.MaxInt)
	case syntax.OpQuest:
		w.repeat(re.Sub[0], 0, 1)
	case syntax.OpRepeat:
		most := re.Max
		if most < 0 {
			most = math.MaxInt
		}
		w.repeat(re.Sub[0], re.Min, most)
	}
}

// repeat writes sub as often as required, and then as often as spare characters allow. The first optional repetition
// may use spare characters itself, like the middle of a name that has to begin and end with a letter.
func (w *writer) repeat(sub *syntax.Regexp, least, most int) {
	for range least {
		w.write(sub)
	}
	if w.spare == 0 || most == least {
		return
	}
	one := &writer{pick: w.pick}
	one.write(sub)
	width := utf8.RuneCountInString(one.b.String())
	if width == 0 || width > w.spare {
		return
	}
	w.spare -= width
	w.write(sub)
	more := min(most-least-1, w.spare/width)
	w.spare -= more * width
	w.b.WriteString(strings.Repeat(one.b.String(), more))
}

// member picks a character of a class, given the class's ranges.
func (w *writer) member(ranges []rune) rune {
	const preferred = "aZ0bY1cX2-._/ "
	var members []rune
	for _, r := range preferred {
		for i := 0; i+1 < len(ranges); i += 2 {
			if r >= ranges[i] && r <= ranges[i+1] {
				members = append(members, r)
			}
		}
	}
	if len(members) > 0 {
		return members[w.pick%len(members)]
	}
	if len(ranges) == 0 {
		return 'a'
	}
	return ranges[0]
}
