/* Plays a scene (server/dashboard/scene.py): charts, tiles, outcome. Everything a visitor does here, play, pause,
   speed, place, happens in the browser; the server is asked only for another run. */
inferenceGym.player = (element, props, act, watch) => {
  const charts = inferenceGym.charts;
  const find = (name) => element.querySelector(`.ig-${name}`);
  const make = (tag, name, text) => {
    const made = document.createElement(tag);
    if (name) made.className = `ig-${name}`;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const parts = Object.fromEntries(
    ["player", "toggle", "speed", "seek", "place", "actions", "key", "tiles", "charts", "outcomes", "title"]
      .map((name) => [name, find(name)]));
  let scene = null, at = 0, playing = false, last = 0, drawn = "";

  // --- time -----------------------------------------------------------------------------------------------

  function tick(now) {
    if (!playing || !element.isConnected) return;
    // A hidden tab gets no frames; it must not jump when it is shown again.
    const passed = Math.min(now - last, 250) / 1000;
    last = now;
    go(at + passed * Number(parts.speed.value));
    // A slow agent is still playing: wait at its last step.
    if (at >= scene.length && scene.done) pause();
    else requestAnimationFrame(tick);
  }

  function play() {
    if (!scene || playing) return;
    if (at >= scene.length) go(0);
    playing = true;
    last = performance.now();
    parts.toggle.textContent = "Pause";
    requestAnimationFrame(tick);
  }

  function pause() {
    playing = false;
    parts.toggle.textContent = "Play";
  }

  function go(place) {
    at = Math.max(0, Math.min(place, scene.steps));
    parts.player.style.setProperty("--ig-at", at / Math.max(scene.length, 1));
    const step = Math.floor(at);
    if (drawn === `${step}`) return;
    drawn = `${step}`;
    parts.seek.value = step;
    const text = scene.plays ? `step ${step} of ${scene.length}` : `step ${step}`;
    parts.seek.setAttribute("aria-valuetext", text);
    parts.place.textContent = text + (scene.done || !scene.plays ? "" : " · still playing");
    scene.tiles.forEach((tile, index) => showTile(parts.tiles.children[index], tile, step));
    parts.outcomes.hidden = !scene.done || step < scene.length;
  }

  // --- tiles ----------------------------------------------------------------------------------------------

  function makeTile(tile) {
    const box = make("div", "tile");
    box.append(make("div", "tile-label", tile.unit ? `${tile.label} (${tile.unit})` : tile.label));
    tile.values.forEach((_, side) => box.append(make("div", `tile-value ig-of-side-${side}`)));
    if (tile.values.length === 2) box.append(make("div", "tile-difference"));
    return box;
  }

  function showTile(box, tile, step) {
    const values = tile.values.map((side) => (step > 0 ? side[Math.min(step, side.length) - 1] ?? null : null));
    values.forEach((value, side) => { box.children[side + 1].textContent = charts.number(value, tile.digits); });
    if (values.length < 2) return;
    const [left, right] = values;
    const difference = left === null || right === null ? null : left - right;
    const text = difference === null ? "–" : (difference > 0 ? "+" : "") + charts.number(difference, tile.digits);
    const verdict = !difference || !tile.better ? "" : (difference > 0) === (tile.better === "more") ? "better" : "worse";
    const shown = box.children[3];
    shown.textContent = verdict ? `${text} ${verdict}` : text;
    shown.dataset.verdict = verdict;
  }

  // --- a new scene ----------------------------------------------------------------------------------------

  function show(next) {
    if (!next || !next.charts) return;
    const goesOn = scene && scene.run === next.run && scene.charts.length === next.charts.length;
    const grew = goesOn && !scene.done;
    scene = next;
    parts.player.hidden = false;
    parts.title.textContent = scene.title;
    parts.seek.max = scene.length;
    if (!goesOn) build();
    scene.charts.forEach((chart, index) => drawChart(parts.charts.children[index], chart));
    showOutcomes();
    showActions();
    drawn = "";
    if (grew) { go(scene.plays ? at : scene.start); return; }
    go(scene.start);
    if (!scene.plays) { pause(); return; }
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (still) { pause(); go(scene.steps); } else play();
  }

  function build() {
    parts.key.replaceChildren(
      ...scene.sides.map((name, side) => make("span", `key-item ig-of-side-${side}`, name)),
      ...[...new Map(scene.spans.map((span) => [span.label, span])).values()].map((span) =>
        make("span", `key-item ig-key-span${span.pressed ? " ig-pressed" : ""}${
          span.side === null ? "" : ` ig-one-side ig-of-side-${span.side}`}`, span.label)));
    parts.tiles.replaceChildren(...scene.tiles.map(makeTile));
    parts.charts.replaceChildren(...scene.charts.map(makeChart));
  }

  function makeChart(chart) {
    const box = make("figure", "chart");
    const head = make("figcaption", "chart-head");
    head.append(make("strong", "", chart.title));
    chart.lines.forEach((line) => head.append(
      make("span", `legend ig-of-side-${line.side}${line.dashed ? " ig-dashed" : ""}`, line.name)));
    const area = make("div", "area"), plot = make("div", "plot"), cover = make("div", "cover");
    area.append(plot, cover);
    box.append(head, area);
    return box;
  }

  function drawChart(box, chart) {
    const plot = box.querySelector(".ig-plot"), drawnScene = scene;
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", charts.describe(chart, scene));
    charts.keep(plot, () => charts.drawRun(plot, chart, drawnScene));
  }

  function showOutcomes() {
    const cards = scene.outcomes.map((outcome) => {
      const card = make("div", `outcome ig-of-side-${outcome.side}`);
      card.append(make("div", "outcome-name", outcome.name), make("div", "score", outcome.score.toFixed(3)));
      const list = make("dl", "parts");
      for (const [name, value] of Object.entries(outcome.parts)) {
        list.append(make("dt", "", name.replaceAll("_", " ")), make("dd", "", value.toFixed(3)));
      }
      card.append(list, make("p", "sentence", outcome.sentence));
      if (outcome.note) card.append(make("p", "note", outcome.note));
      return card;
    });
    if (scene.outcomes.length === 2) {
      const [a, b] = scene.outcomes, gap = a.score - b.score;
      const verdict = Math.abs(gap) < 0.0005 ? `${a.name} and ${b.name} score the same.`
        : `${gap > 0 ? a.name : b.name} scores ${Math.abs(gap).toFixed(3)} more.`;
      cards.push(make("p", "verdict", verdict));
    }
    parts.outcomes.replaceChildren(...cards);
  }

  function showActions() {
    const focused = [...parts.actions.children].indexOf(document.activeElement);
    parts.actions.replaceChildren(...scene.actions.map((action) => {
      const button = make("button", "button", action.label);
      button.type = "button";
      button.title = action.hint;
      button.addEventListener("click", () => act({ id: action.id, step: Math.floor(at) }));
      return button;
    }));
    parts.actions.children[focused]?.focus();
  }

  parts.toggle.addEventListener("click", () => (playing ? pause() : play()));
  parts.seek.addEventListener("input", () => { pause(); go(Number(parts.seek.value)); });
  watch("value", () => show(props.value));
  show(props.value);
};
