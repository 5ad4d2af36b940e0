// Copies commands, names the columns of cells, searches and filters the rollouts. Without it
// everything can still be read: all of it is in the page.
(() => {
  for (const text of document.querySelectorAll('pre.copyable')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'copy';
    button.addEventListener('click', () => {
      getSelection().selectAllChildren(text);
      button.textContent = document.execCommand('copy')
        ? 'copied'
        : 'marked: copy it with the keyboard';
    });
    text.after(button);
  }
  // on a narrow screen each row stands for itself, its cells below each other: a cell says which
  // column it is of
  for (const table of document.querySelectorAll('.wide > table')) {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((cell) =>
      (cell.querySelector('bdi') ?? cell).textContent.trim(),
    );
    if (heads.length < 4) continue;
    table.classList.add('stacks');
    for (const row of table.tBodies[0].rows) {
      let column = 0;
      for (const cell of row.cells) {
        if (column > 0) cell.dataset.column = heads[column] ?? '';
        column += cell.colSpan;
      }
    }
  }
  const get = (id) => document.getElementById(id);
  const query = get('query');
  if (!query) return;
  const rollouts = [...document.querySelectorAll('details.rollout')];
  const texts = rollouts.map((rollout) => rollout.textContent.toLowerCase());
  const selects = ['tier', 'iteration', 'verdict'].map(get);
  const show = () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rollouts.forEach((rollout, i) => {
      const hit =
        words.every((word) => texts[i].includes(word)) &&
        selects.every(({ id, value }) => value === '' || rollout.dataset[id] === value);
      rollout.hidden = !hit;
      if (hit) shown++;
    });
    get('found').textContent = `${shown} shown`;
  };
  query.addEventListener('input', show);
  for (const select of selects) select.addEventListener('change', show);
  show();
})();
