'use strict';
(() => {
const viewer = document.getElementById('viewer');
if (viewer) {
  const all = JSON.parse(viewer.querySelector('script').textContent);
  const texts = all.map(pair => pair.flat(3).join(' ').toLowerCase());
  const form = viewer.querySelector('form'), [said, shown] = viewer.querySelectorAll('div > p.faint, div.pair');
  const {outcome, words, previous, next} = form.elements;
  let found = [], at = 0;
  const add = (to, tag, text) => {
    const made = document.createElement(tag);
    made.textContent = text;
    to.append(made);
    return made;
  };
  // Which words of either text are in a longest common subsequence of both.
  const common = (one, other) => {
    const m = one.length, n = other.length, keep = [new Set(), new Set()];
    if (m * n > 1e6) return null;
    const length = Array.from({length: m + 1}, () => new Uint16Array(n + 1));
    for (let i = m - 1; i >= 0; i--) for (let k = n - 1; k >= 0; k--)
      length[i][k] = one[i] === other[k] ? length[i + 1][k + 1] + 1 : Math.max(length[i + 1][k], length[i][k + 1]);
    for (let i = 0, k = 0; i < m && k < n;) {
      if (one[i] === other[k]) { keep[0].add(i++); keep[1].add(k++); }
      else if (length[i + 1][k] >= length[i][k + 1]) i++;
      else k++;
    }
    return keep;
  };
  const split = text => text.match(/\w+|\s+|[^\w\s]/g) || [];
  const show = () => {
    const pair = all[found[at]];
    shown.replaceChildren();
    said.textContent = found.length ? `Pair ${at + 1} of ${found.length}.` : 'No pair is like that.';
    if (!pair) return;
    const [item, draw, strata, prompt, truth, before, after] = pair;
    said.textContent += ` Item ${item}, draw ${draw}${strata && `; ${strata}`}${truth && `. Right: ${truth}`}${prompt && `. Prompt: ${prompt}`}`;
    for (const [k, name, [success, reward, ending, turns]] of [[0, 'Before', before], [1, 'After', after]]) {
      const column = add(shown, 'div', '');
      add(column, 'h3', `${name}: ${success ? 'success' : 'no success'}, reward ${reward}, ${ending}`);
      turns.forEach((text, turn) => {
        const block = add(column, 'pre', ''), other = [after, before][k][3][turn];
        const own = split(text), keep = other === undefined ? [new Set(), new Set()]
          : k ? common(split(other), own) : common(own, split(other));
        own.forEach((word, place) => keep && !keep[k].has(place) && word.trim()
          ? add(block, 'mark', word) : block.append(word));
      });
    }
  };
  const go = by => { at = Math.min(Math.max(at + by, 0), Math.max(found.length - 1, 0)); show(); };
  const apply = () => {
    const sought = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = [...all.keys()].filter(k => (!outcome.value || `${all[k][5][0]}${all[k][6][0]}` === outcome.value)
      && sought.every(word => texts[k].includes(word)));
    at = 0;
    show();
  };
  viewer.hidden = false;
  form.addEventListener('input', apply);
  form.addEventListener('submit', event => event.preventDefault());
  form.addEventListener('reset', () => setTimeout(apply));
  previous.addEventListener('click', () => go(-1));
  next.addEventListener('click', () => go(1));
  viewer.addEventListener('keydown', event => {
    const by = {n: 1, p: -1}[event.key];
    if (by && !event.ctrlKey && !event.metaKey && !event.altKey && event.target !== words) go(by);
  });
  apply();
}
const value = cell => {
  const text = cell ? cell.textContent.trim().replace(/\u2212/g, '-') : '';
  const found = /^[<\s]*([-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?)/i.exec(text);
  return found ? parseFloat(found[1]) : text;
};
for (const table of document.querySelectorAll('table')) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 3) continue;
  [...table.tHead.rows[0].cells].forEach((head, k) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = head.textContent;
    button.title = 'Sort by this column';
    head.replaceChildren(button);
    button.addEventListener('click', () => {
      const up = head.getAttribute('aria-sort') !== 'ascending';
      for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      const rows = [...body.rows].map(row => [value(row.cells[k]), row]);
      rows.sort(([a], [b]) => (typeof a === 'number') !== (typeof b === 'number')
        ? (typeof a === 'number' ? -1 : 1)
        : (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1));
      body.append(...rows.map(([, row]) => row));
    });
  });
}
})();
