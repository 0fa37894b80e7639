package report_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The IDs of runs are their positions in the fixture.
const (
	duplicate = "#r3" // killed after a create
	hotLoop   = "#r6" // with 309 entries
)

// shownRuns selects the names of the visible runs.
const shownRuns = `[...document.querySelectorAll('.run')].filter((r) => r.checkVisibility())
	.map((r) => r.querySelector('.name').textContent).join(' ')`

func rowsShown(run string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('%s tbody tr[id]')].filter((r) => r.checkVisibility()).length`, run)
}

// faultFilter returns the selector of the label that filters by a fault.
func faultFilter(p *tab, fault string) string {
	p.t.Helper()
	return "label:has(#" + p.text(`[...document.querySelectorAll('.filters label')]
		.find((l) => l.textContent.startsWith('`+fault+` ')).control.id`) + ")"
}

func visible(selector string) string {
	return fmt.Sprintf("document.querySelector(%q).checkVisibility({contentVisibilityAuto: true})", selector)
}

func TestPageInChromium(t *testing.T) {
	b := startBrowser(t)
	website := page(t, website(t))
	for name, test := range map[string]func(*testing.T, *browser, []byte){
		"looks":         pageAppearance,
		"filters":       pageFilters,
		"rows":          pageRows,
		"mouse":         pageMouse,
		"keyboard":      pageKeyboard,
		"links":         pageLinks,
		"no script":     pageWithoutScript,
		"print":         pagePrinted,
		"injected code": pageIgnoresInjectedCode,
		"copies":        pageCopies,
		"contrast":      pageContrast,
		"large":         pageLarge,
		"nothing there": pageOfEmptyReport,
	} {
		t.Run(name, func(t *testing.T) { test(t, b, website) })
	}
}

// checkNoErrors fails the test if the page printed to the console or sent a request.
func checkNoErrors(t *testing.T, p *tab) {
	t.Helper()
	if err := p.errors(); err != nil {
		t.Errorf("the browser reports:\n%v", err)
	}
}

func pageFilters(t *testing.T, b *browser, website []byte) {
	p := b.open(t, website, view{})
	p.click("label:has(#only-failed)")
	want := "crash-after/create-deployment-shop#1 lost-response/create-deployment-shop#1 watch-lag/deployments.apps#1"
	if got := p.text(shownRuns); got != want {
		t.Errorf("runs that failed: %s", cmp.Diff(want, got))
	}
	p.click(faultFilter(p, "crash-after"))
	if got, want := p.text(shownRuns), "crash-after/create-deployment-shop#1"; got != want {
		t.Errorf("runs that failed after a crash: %s", cmp.Diff(want, got))
	}
	p.click(faultFilter(p, "crash-before"))
	if got := p.text(shownRuns); got != "" || !p.is(visible(".group.failed .empty")) {
		t.Errorf("no run failed with that fault, but the page shows %q, and no note that there is none", got)
	}
	p.click("label:has(#only-passed)")
	if got, want := p.text(shownRuns), "crash-before/create-deployment-shop#1"; got != want {
		t.Errorf("runs that passed with that fault: %s", cmp.Diff(want, got))
	}
	p.press("ArrowLeft") // the keys wrap around in a group of radio buttons
	p.press("ArrowLeft")
	p.press("ArrowLeft")
	p.until("all outcomes are selected", "document.querySelector('#any-outcome').checked")
	if p.is(visible(".group.failed h2")) || p.is(visible(".group.failed .empty")) {
		t.Error("the empty group of failed runs is shown")
	}
	checkNoErrors(t, p)
}

func pageRows(t *testing.T, b *browser, website []byte) {
	p := b.open(t, website, view{})
	p.click(hotLoop + " > summary")
	p.screenshot("hot loop", true)
	few := p.number(rowsShown(hotLoop))
	if few < 20 || few > 100 {
		t.Errorf("the table shows %v entries at first", few)
	}
	p.click(hotLoop + " .gap label")
	some := p.number(rowsShown(hotLoop))
	if some <= few || some >= 309 {
		t.Errorf("with one gap filled the table shows %v entries, before %v", some, few)
	}
	p.click(hotLoop + " .show-all")
	if got := p.number(rowsShown(hotLoop)); got != 309 {
		t.Errorf("the table shows %v entries when asked for all, want 309", got)
	}
	if p.is(visible(hotLoop + " .gap")) {
		t.Error("a row reports an omission, but nothing is omitted")
	}
	checkNoErrors(t, p)
}

func pageMouse(t *testing.T, b *browser, website []byte) {
	p := b.open(t, website, view{})
	p.point(duplicate + " .mark.operator.bad .shape")
	p.until("the mark says what it is", "!tip.hidden")
	want := "0.289s ! operator: create deployments.apps explore-7/shop-9fj4z -> 201"
	if got := p.text("tip.querySelector('p').firstChild.parentNode.innerText"); !strings.HasPrefix(got, want) ||
		!strings.Contains(got, "metadata.generateName: shop-") {
		t.Errorf("the mark has the title %q, want %q and the created object", got, want)
	}
	p.screenshot("tip", false)
	if p.is(`(({left, right, top, bottom}) => left < 0 || right > innerWidth || top < 0 || bottom > innerHeight)
		(tip.getBoundingClientRect())`) {
		t.Error("the text of the mark exceeds the window")
	}
	p.point("h1")
	p.until("nothing is said beside a mark", "tip.hidden")
	p.eval("document.querySelector('"+hotLoop+"').open = true", nil)
	p.point(hotLoop + " .mark.operator:has(rect) .shape")
	p.until("the mark says what it is", "!tip.hidden")
	if got := p.text("tip.innerText"); !regexp.MustCompile(`(?m)^0\.\d+s get .*\n+0\.\d+s `).MatchString(got) {
		t.Errorf("a mark of several entries has the title %q", got)
	}
	checkNoErrors(t, p)
}

func pageKeyboard(t *testing.T, b *browser, website []byte) {
	p := b.open(t, website, view{})
	p.eval("document.querySelector('"+duplicate+" .replay button').focus()", nil)
	at := func(want string) {
		t.Helper()
		got := p.text("document.activeElement.getAttribute('aria-label') ?? document.activeElement.outerHTML")
		if !strings.HasPrefix(got, want) {
			t.Errorf("the focus is on %.200q, want %q", got, want)
		}
		if !p.is("!tip.hidden && document.activeElement.matches(':focus-visible')") {
			t.Errorf("at %q no text is shown beside the mark", want)
		}
	}
	p.press("Tab")
	at("0.289s operator (look here): create deployments.apps explore-7/shop-9fj4z")
	p.press("ArrowDown")
	at("0.290s cluster (look here): Deployment explore-7/shop-9fj4z was created")
	p.press("ArrowDown")
	at("0.192s fault: the operator was started again")
	p.press("ArrowLeft")
	at("0.014s fault (look here): killed the operator")
	p.press("ArrowLeft")
	at("0.014s fault (look here): killed the operator")
	p.press("Escape")
	if !p.is("tip.hidden") {
		t.Error("Escape does not hide the text beside a mark")
	}
	p.press("Tab")
	if !p.is("document.activeElement.matches('" + duplicate + " .timeline > summary')") {
		t.Errorf("Tab does not leave the drawing, but leads to %s", p.text("document.activeElement.outerHTML.slice(0, 200)"))
	}
	p.eval("document.querySelector('"+duplicate+" .mark[tabindex=\"0\"]').focus()", nil)
	p.press("Home")
	p.press("Enter")
	p.until("the page is at the row of the mark", "document.querySelector(':target')?.matches('tr')")
	want := "killed the operator after its request"
	if got := p.text("document.querySelector(':target').innerText"); !strings.Contains(got, want) {
		t.Errorf("Enter leads to %q, want %q", got, want)
	}
	checkNoErrors(t, p)
}

func pageLinks(t *testing.T, b *browser, website []byte) {
	p := b.open(t, website, view{})
	p.click("label:has(#only-passed)")
	p.eval("location.hash = '"+hotLoop+"e150'", nil) // filtered out, in a closed run, and omitted from the table
	p.until("the row is seen", "document.querySelector('"+hotLoop+"e150').checkVisibility()")
	p.until("it is inside of the window", `(({top, bottom}) => top >= 0 && bottom <= innerHeight)
		(document.querySelector('`+hotLoop+`e150').getBoundingClientRect())`)
	p.click(duplicate + " > summary")
	p.eval("document.querySelector('"+duplicate+"').open = true", nil)
	p.click(duplicate + " .mark.operator[data-rows] .shape")
	p.until("all entries of a mark are shown", `(() => {
		const rows = document.querySelector('`+duplicate+` .mark.operator[data-rows]').dataset.rows.split(' ');
		return rows.length > 1 && rows.every((id) => document.getElementById(id).matches('.hit') &&
			document.getElementById(id).checkVisibility());
	})()`)
	checkNoErrors(t, p)
}

func pageWithoutScript(t *testing.T, b *browser, website []byte) {
	p := b.open(t, website, view{noScript: true})
	if p.is("document.querySelector('.replay button')") {
		t.Fatal("a script was run")
	}
	p.click("label:has(#only-failed)")
	if got := len(strings.Fields(p.text(shownRuns))); got != 3 {
		t.Errorf("without scripts the filter shows %d runs, want 3", got)
	}
	p.click(hotLoop + " > summary")
	p.click(hotLoop + " .show-all")
	if got := p.number(rowsShown(hotLoop)); got != 309 {
		t.Errorf("without scripts the table shows %v entries when asked for all, want 309", got)
	}
	p.click(hotLoop + " .show-all")
	p.click(hotLoop + " .mark.operator .shape")
	p.until("a mark leads to its row", "document.querySelector(':target')?.matches('tr') && "+
		"document.querySelector(':target').checkVisibility()")
	if !p.is("document.querySelector('" + duplicate + " .mark title').textContent") {
		t.Error("without scripts a mark has no title")
	}
	checkNoErrors(t, p)
}

func pageCopies(t *testing.T, b *browser, website []byte) {
	p := b.open(t, website, view{})
	p.call("Browser.grantPermissions", map[string]any{
		"permissions": []string{"clipboardReadWrite", "clipboardSanitizedWrite"},
	}, nil)
	p.click(duplicate + " .replay button")
	button := "document.querySelector('" + duplicate + " .replay button')"
	p.until("the button says that it is done", button+".textContent === 'Copied'")
	want := "testkit explore --scenario scenario.yaml --seed 7 --plan 'crash-after/create-deployment-shop#1' " +
		"-- ./website-operator"
	if got := p.text("navigator.clipboard.readText()"); got != want {
		t.Errorf("the copied text: %s", cmp.Diff(want, got))
	}
	checkNoErrors(t, p)
}

func pageLarge(t *testing.T, b *browser, _ []byte) {
	_, large := large(t)
	p := b.open(t, large, view{})
	p.click("label:has(#only-passed)")
	if got := len(strings.Fields(p.text(shownRuns))); got != 10+longRuns {
		t.Errorf("%d runs are shown, want %d", got, 10+longRuns)
	}
	p.eval("document.querySelector('.run.passed:last-of-type').open = true", nil)
	p.point(".run.passed:last-of-type .mark.operator[href*=s]:has(rect) .shape")
	p.until("a mark says what it is though its rows are not in the page",
		"!tip.hidden && /get|patch/.test(tip.textContent)")
	checkNoErrors(t, p)
}

func pageOfEmptyReport(t *testing.T, b *browser, _ []byte) {
	r := small()
	r.Runs = nil
	r.Skipped = nil
	r.Notes = nil
	r.Steps = nil
	p := b.open(t, page(t, r), view{})
	if got := p.text("document.body.innerText"); !strings.Contains(got, "Nothing failed of 0 runs") {
		t.Errorf("a report without runs shows %q", got)
	}
	p.click("label:has(#only-untried)")
	if !p.is(visible(".group.untried .empty")) || p.is(visible(".group.failed .empty")) {
		t.Error("there is no note that no run is untried, or more than one")
	}
	checkNoErrors(t, p)
}
