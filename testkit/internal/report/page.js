'use strict';
(() => {
  const tip = document.getElementById('tip');
  let shown = null;

  const markAt = (node) => node instanceof Element ? node.closest('.mark') : null;
  const rowsOf = (mark) => (mark.dataset.rows ?? mark.getAttribute('href').slice(1)).split(' ')
    .map((id) => document.getElementById(id)).filter((row) => row?.cells);

  // What is known of an entry is in its row of the table.
  const describe = (row, alone) => {
    const p = document.createElement('p');
    const time = document.createElement('b');
    const [at, lane, what] = row.cells;
    const text = (what.querySelector('summary') ?? what).textContent;
    p.classList.toggle('bad', row.classList.contains('bad'));
    time.textContent = at.lastChild.textContent + (row.classList.contains('bad') ? ' !' : '');
    p.append(time, ' ', alone ? lane.textContent + ': ' : '', text);
    const more = what.querySelector('pre');
    if (alone && more) {
      const pre = document.createElement('pre');
      pre.textContent = more.textContent;
      p.append(pre);
    }
    return p;
  };

  const show = (mark) => {
    const title = mark.querySelector('title');
    if (title) { // or the browser would show it, too
      mark.setAttribute('aria-label', title.textContent);
      title.remove();
    }
    const rows = rowsOf(mark);
    const most = 8;
    tip.textContent = mark.getAttribute('aria-label');
    if (rows.length) tip.replaceChildren(...rows.slice(0, most).map((row) => describe(row, rows.length === 1)));
    if (rows.length > most) {
      const rest = document.createElement('p');
      rest.textContent = `and ${rows.length - most} more: Enter or a click shows them in the table`;
      tip.append(rest);
    }
    tip.hidden = false;
    shown = mark;
    place();
  };

  const place = () => {
    if (!shown) return;
    const at = shown.querySelector('.shape').getBoundingClientRect();
    const left = at.left + at.width / 2 - tip.offsetWidth / 2;
    const above = at.top - tip.offsetHeight - 8;
    tip.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${above >= 4 ? above : at.bottom + 8}px`;
  };

  const hide = () => {
    tip.hidden = true;
    shown = null;
  };

  document.addEventListener('pointerover', (e) => {
    const mark = markAt(e.target);
    if (mark) show(mark);
    else if (shown && shown !== document.activeElement) hide();
  });
  document.addEventListener('focusin', (e) => {
    const mark = markAt(e.target);
    if (mark) show(mark);
    else hide();
  });
  document.addEventListener('focusout', hide);
  document.addEventListener('scroll', place, {capture: true, passive: true});
  addEventListener('resize', place);

  // A drawing is one stop of the Tab key. The arrow keys go from mark to mark: left and right in a lane, up and down
  // to the nearest of the next.
  const x = (mark) => parseFloat(mark.querySelector('svg').getAttribute('x'));
  const enter = (drawing, mark) => {
    for (const m of drawing.querySelectorAll('.mark')) m.setAttribute('tabindex', m === mark ? '0' : '-1');
  };
  for (const drawing of document.querySelectorAll('.drawing')) {
    enter(drawing, drawing.querySelector('.mark.bad') ?? drawing.querySelector('.mark'));
    drawing.nextElementSibling.append(' On the keyboard: Tab, then the arrow keys and Enter.');
  }
  const inLane = (lane) => [...lane.querySelectorAll('.mark')].sort((a, b) => x(a) - x(b));
  const next = (mark, key) => {
    const lane = mark.closest('.marks');
    const marks = inLane(lane);
    const lanes = [...lane.parentNode.querySelectorAll('.marks')];
    const across = (by) => inLane(lanes[lanes.indexOf(lane) + by] ?? lane)
      .reduce((a, b) => Math.abs(x(b) - x(mark)) < Math.abs(x(a) - x(mark)) ? b : a);
    switch (key) {
      case 'ArrowLeft': return marks[marks.indexOf(mark) - 1];
      case 'ArrowRight': return marks[marks.indexOf(mark) + 1];
      case 'ArrowUp': return across(-1);
      case 'ArrowDown': return across(1);
      case 'Home': return marks[0];
      case 'End': return marks[marks.length - 1];
      default: return null;
    }
  };
  document.addEventListener('keydown', (e) => {
    if (e.key === 'Escape') hide();
    const mark = markAt(document.activeElement);
    if (!mark || e.ctrlKey || e.altKey || e.metaKey) return;
    const to = next(mark, e.key);
    if (to) {
      enter(mark.closest('.drawing'), to);
      to.focus();
    }
    if (to || e.key.startsWith('Arrow')) e.preventDefault();
  });

  // A mark of several leads to all of them.
  document.addEventListener('click', (e) => {
    const mark = markAt(e.target);
    if (!mark) return;
    for (const row of document.querySelectorAll('.hit')) row.classList.remove('hit');
    for (const row of rowsOf(mark)) row.classList.add('hit');
    hide();
  });

  // A link must not lead to what a filter hides.
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (!target.checkVisibility()) {
      for (const id of ['any-outcome', 'any-fault']) document.getElementById(id).checked = true;
    }
    for (let d = target.closest('details'); d; d = d.parentElement.closest('details')) d.open = true;
    target.scrollIntoView({block: 'nearest'});
  };
  addEventListener('hashchange', reveal);
  reveal();

  for (const replay of document.querySelectorAll('.replay')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      const code = replay.querySelector('code');
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = 'Copied';
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = 'Selected';
      }
    });
    replay.append(button);
  }
})();
