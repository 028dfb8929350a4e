// Sorting and filtering of the people treated worst. Without it the page is complete, in order.
(() => {
  const list = document.getElementById("people");
  if (!list) return;
  const controls = document.getElementById("controls");
  const sort = document.getElementById("sort");
  const group = document.getElementById("group");
  const find = document.getElementById("find");
  const flipped = document.getElementById("flipped");
  const found = document.getElementById("found");
  const cards = [...list.children];
  const value = (card, name) => {
    const number = Number(card.dataset[name]);
    return Number.isNaN(number) ? -Infinity : number;
  };
  const update = () => {
    const key = sort.value;
    const sign = key === "row" ? 1 : -1;
    const order = [...cards].sort((a, b) => sign * (value(a, key) - value(b, key)));
    const wanted = find.value.trim().toLowerCase();
    let shown = 0;
    for (const card of order) {
      list.append(card);
      const keep =
        (!group || !group.value || JSON.parse(card.dataset.groups).includes(group.value)) &&
        (!flipped.checked || card.dataset.flipped === "1") &&
        card.dataset.text.includes(wanted);
      card.hidden = !keep;
      shown += keep;
    }
    found.textContent = `${shown} of ${cards.length} shown`;
  };
  controls.hidden = false;
  for (const control of controls.querySelectorAll("select, input")) {
    control.addEventListener("input", update);
  }
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
  update();
})();
