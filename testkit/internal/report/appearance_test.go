package report_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

func pageAppearance(t *testing.T, b *browser, website []byte) {
	for name, v := range map[string]view{
		"light": {}, "dark": {dark: true}, "narrow": {width: 400}, "narrow dark": {width: 400, dark: true},
	} {
		p := b.open(t, website, v)
		p.screenshot(name, true)
		p.eval("for (const d of document.querySelectorAll('details')) d.open = true", nil)
		if got := p.number("document.documentElement.scrollWidth - innerWidth"); got > 0 {
			t.Errorf("%s: the page is %v pixels wider than the window", name, got)
		}
		background := "rgb(255, 255, 255)"
		if v.dark {
			background = "rgb(20, 23, 28)"
		}
		if got := p.text("getComputedStyle(document.body).backgroundColor"); got != background {
			t.Errorf("%s: the background is %s, want %s", name, got, background)
		}
		if got := p.number("document.querySelector('" + duplicate + " .drawing svg').clientWidth"); got < 800 {
			t.Errorf("%s: the drawing is %v pixels wide, which is too narrow to be read", name, got)
		}
		checkNoErrors(t, p)
	}
}

func pagePrinted(t *testing.T, b *browser, website []byte) {
	p := b.open(t, website, view{dark: true})
	var pdf struct{ Data string }
	p.call("Page.printToPDF", map[string]any{"printBackground": true}, &pdf)
	data := p.keep("report.pdf", pdf.Data)
	pages := len(regexp.MustCompile(`/Type\s*/Page\b`).FindAll(data, -1))
	if !bytes.HasPrefix(data, []byte("%PDF-")) || pages < 3 || pages > 30 {
		t.Errorf("printed, the report has %d pages", pages)
	}
	p.call("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
	if got := p.text("getComputedStyle(document.body).backgroundColor"); got != "rgb(255, 255, 255)" {
		t.Errorf("printed, the background is %s", got)
	}
	for selector, want := range map[string]bool{
		hotLoop + " .violations": true, hotLoop + " .drawing": true,
		"#r0 .name": true, "#r0 .drawing": false, ".filters": false,
	} {
		if got := p.is(visible(selector)); got != want {
			t.Errorf("printed, %s is shown: %v, want %v", selector, got, want)
		}
	}
	checkNoErrors(t, p)
}

func pageIgnoresInjectedCode(t *testing.T, b *browser, _ []byte) {
	p := b.open(t, page(t, hostile()), view{width: 400})
	p.eval("for (const d of document.querySelectorAll('details')) d.open = true", nil)
	p.screenshot("hostile", false)
	if p.is("window.obeyed") {
		t.Error("a text of the operator was run as a script")
	}
	if p.is("document.scripts.length !== 1 || document.images.length || document.styleSheets.length !== 1") {
		t.Error("the page has more than its one script and its one style sheet")
	}
	if got := p.number("document.documentElement.scrollWidth - innerWidth"); got > 0 {
		t.Errorf("a long line makes the page %v pixels wider than the window", got)
	}
	// Even if a text became a script, it would not run.
	p.eval(`const script = document.createElement('script');
		script.textContent = 'window.obeyed = 1';
		document.body.append(script)`, nil)
	if p.is("window.obeyed") {
		t.Error("the page runs a script that is not its own")
	}
}

// contrast implements the 4.5:1 rule of WCAG 2.2. SVG shapes have their color in fill, and their background in another
// element.
const contrast = `(() => {
	const rgb = (color) => color.match(/[\d.]+/g).map(Number);
	const light = (color) => {
		const [r, g, b] = rgb(color).map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const under = (e) => {
		for (; e; e = e.parentElement) {
			const color = getComputedStyle(e).backgroundColor;
			if ((rgb(color)[3] ?? 1) === 1) return color;
		}
	};
	const poor = [];
	const compare = (what, text, background) => {
		const [high, low] = [light(text), light(background)].sort((a, b) => b - a);
		const ratio = (high + 0.05) / (low + 0.05);
		if (ratio < 4.5) poor.push(what + ': ' + ratio.toFixed(2));
	};
	let seen = 0;
	for (const e of document.querySelectorAll('body *')) {
		const hasText = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
		if (!hasText || !e.checkVisibility() || e.closest('script, .unseen')) continue;
		const style = getComputedStyle(e);
		const what = e.localName + '.' + (e.getAttribute('class') ?? '') + ' ' + e.textContent.trim().slice(0, 30);
		seen++;
		if (!e.closest('svg')) compare(what, style.color, under(e));
		else if (e.matches('.number')) compare(what, style.fill, getComputedStyle(e.previousElementSibling).fill);
		else {
			for (const row of e.closest('.drawing').querySelectorAll('.row:nth-of-type(-n+2), .cut rect')) {
				compare(what, style.fill, getComputedStyle(row).fill);
			}
		}
	}
	return {seen, poor: [...new Set(poor)]};
})()`

func pageContrast(t *testing.T, b *browser, website []byte) {
	for _, dark := range []bool{false, true} {
		p := b.open(t, website, view{dark: dark})
		p.eval("for (const d of document.querySelectorAll('.run.failed, .not-run details')) d.open = true", nil)
		var got struct {
			Seen int
			Poor []string
		}
		p.eval(contrast, &got)
		if len(got.Poor) > 0 || got.Seen < 300 {
			t.Errorf("dark: %v: of %d texts these are hard to read: %s", dark, got.Seen, strings.Join(got.Poor, "\n"))
		}
	}
}
