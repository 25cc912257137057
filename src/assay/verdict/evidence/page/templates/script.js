'use strict';
(() => {
const form = document.getElementById('filter');
if (form) {
  const all = [...document.querySelectorAll('article[data-kind]')];
  const texts = all.map(a => a.textContent.toLowerCase());
  const said = document.getElementById('filtered');
  const kind = form.elements.kind, stratum = form.elements.stratum, words = form.elements.words;
  const apply = () => {
    const sought = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    all.forEach((a, k) => {
      const fits = (!kind.value || a.dataset.kind === kind.value)
        && (!stratum.value || a.dataset.strata.split(' ').includes(stratum.value))
        && sought.every(word => texts[k].includes(word));
      a.hidden = !fits;
      n += fits;
    });
    said.textContent = n + ' of ' + all.length + ' pairs on this page are shown.';
  };
  form.hidden = false;
  form.addEventListener('input', apply);
  form.addEventListener('submit', event => event.preventDefault());
  form.addEventListener('reset', () => setTimeout(apply));
  document.getElementById('open-all').addEventListener('click', () => {
    const shown = all.filter(a => !a.hidden).map(a => a.querySelector('details'));
    const open = shown.some(d => !d.open);
    shown.forEach(d => { d.open = open; });
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
