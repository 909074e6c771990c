/* Draws the committed results (server/dashboard/compare.py): scores with intervals, a learning curve, a trade-off. */
inferenceGym.compare = (element, props, watch) => {
  const charts = inferenceGym.charts;
  const box = element.querySelector(".ig-compare");
  const DASHES = ["dash", "dot", "solid"];

  function layout(options) {
    const made = charts.layoutOf({ log: false, ...options });
    return { ...made, height: undefined, autosize: true, hovermode: "closest" };
  }

  function key(name, entries) {
    box.querySelector(`[data-keys="${name}"]`).replaceChildren(...entries.map(({ text, side, dash, dot }) => {
      const item = document.createElement("span");
      item.className = `ig-key-mark ig-of-side-${side}`;
      item.dataset.mark = dot ? "marker" : dash || "solid";
      item.textContent = text;
      return item;
    }));
  }

  function scores(div, { agents, values, half_widths, baseline }) {
    const made = layout({ xTitle: "score (0 to 1)", yTitle: "" });
    const reference = agents.indexOf(baseline);
    const longest = Math.max(...agents.map((name) => name.length));
    made.margin = { ...charts.MARGIN, l: 24 + 7 * longest };
    made.xaxis = { ...made.xaxis, range: [Math.min(0, ...values) - 0.02, Math.max(1, ...values) + 0.02] };
    made.yaxis = {
      ...made.yaxis, type: "category", autorange: "reversed", dtick: 1, rangemode: "normal",
      title: { text: "agent", standoff: 4 },
    };
    if (reference >= 0) made.shapes = [{
      type: "line", xref: "x", x0: values[reference], x1: values[reference], yref: "paper", y0: 0, y1: 1,
      line: { color: charts.sideColour(1), width: 1.5, dash: "dash" },
    }];
    key("scores", [
      { text: "mean score with its 95 % interval", side: 0, dot: true },
      ...(reference >= 0 ? [{ text: `score of ${baseline}`, side: 1, dash: "dash" }] : []),
    ]);
    return charts.draw(div, [{
      type: "scatter", mode: "markers", x: values, y: agents, name: "score",
      error_x: { type: "data", array: half_widths, thickness: 2, width: 5, color: charts.sideColour(0) },
      marker: { size: 7, color: charts.sideColour(0) },
      hovertemplate: "%{y}: %{x:.3f}<extra></extra>",
    }], made);
  }

  function curve(div, { points, lines }) {
    const x = points.map(([steps]) => steps), y = points.map(([, mean]) => mean.value);
    const half = points.map(([, mean]) => mean.half_width ?? 0);
    const made = layout({ xTitle: "environment steps", yTitle: "score (0 to 1)", xRange: [0, x.at(-1)] });
    const lowest = Math.min(...y.map((value, at) => value - half[at]), ...lines.map((line) => line.score.value));
    made.yaxis = { ...made.yaxis, range: [Math.max(0, Math.floor(10 * lowest - 0.2) / 10), 1.02] };
    made.margin = { ...made.margin, r: 24 };
    const side = charts.sideColour(0);
    const band = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", x };
    const references = lines.map((line, index) => ({
      type: "scatter", mode: "lines", name: line.name, x: [0, x.at(-1)], y: [line.score.value, line.score.value],
      line: { color: charts.sideColour(1), width: 1.5, dash: DASHES[index % DASHES.length] },
      hovertemplate: `${line.name}: %{y:.3f}<extra></extra>`,
    }));
    key("curve", [
      { text: "PPO", side: 0 },
      ...lines.map((line, index) => ({ text: line.name, side: 1, dash: DASHES[index % DASHES.length] })),
    ]);
    return charts.draw(div, [
      { ...band, y: y.map((value, at) => value - half[at]) },
      { ...band, y: y.map((value, at) => value + half[at]), fill: "tonexty", fillcolor: `${side}33` },
      ...references,
      {
        type: "scatter", mode: "lines+markers", name: "PPO", x, y, customdata: half,
        line: { color: side, width: 2 }, marker: { size: 6, color: side },
        hovertemplate: "%{x:,} steps: %{y:.3f} ± %{customdata:.3f}<extra></extra>",
      },
    ], made);
  }

  function front(div, { cost, gain, line_name, agents, line }) {
    const made = layout({ xTitle: cost, yTitle: gain });
    const all = [...agents, ...line].map((point) => point.cost.value);
    const logs = [Math.log10(Math.min(...all)) - 0.1, Math.log10(Math.max(...all)) + 0.35];
    made.xaxis = { ...made.xaxis, type: "log", range: logs, tickvals: ticks(logs) };
    made.yaxis = { ...made.yaxis, rangemode: "normal" };
    const ordered = [...line].sort((a, b) => a.cost.value - b.cost.value);
    const errors = (points, what, side) => ({
      type: "data", array: points.map((point) => point[what].half_width ?? 0), thickness: 1, width: 3,
      color: charts.sideColour(side),
    });
    const trace = (points, side, mode) => ({
      type: "scatter", mode, x: points.map((point) => point.cost.value), y: points.map((point) => point.gain.value),
      text: points.map((point) => point.name), marker: { size: 8, color: charts.sideColour(side) },
      error_x: errors(points, "cost", side), error_y: errors(points, "gain", side),
      hovertemplate: "%{text}: %{y:.3f} at %{x:.3g}<extra></extra>",
    });
    key("front", [{ text: line_name, side: 0 }, { text: "agents, with 95 % intervals", side: 1, dot: true }]);
    // A name to the right of a point at the right edge would be cut.
    const labelSide = (point) => (
      Math.log10(point.cost.value) > logs[0] + 0.65 * (logs[1] - logs[0]) ? "bottom left" : "bottom right");
    return charts.draw(div, [
      { ...trace(ordered, 0, "lines+markers"), line: { color: charts.sideColour(0), width: 2 } },
      {
        ...trace(agents, 1, "markers+text"), textposition: agents.map(labelSide),
        textfont: { size: 11, color: charts.colour("--ig-text") }, cliponaxis: false,
      },
    ], made);
  }

  /* 1, 2 and 5 of each decade. */
  function ticks([low, high]) {
    const made = [];
    for (let decade = Math.floor(low); decade <= high; decade += 1) {
      for (const digit of [1, 2, 5]) made.push(digit * 10 ** decade);
    }
    return made;
  }

  const draws = { scores, curve, front };

  function show(value) {
    if (!value) return;
    box.innerHTML = value.html;
    for (const div of box.querySelectorAll("[data-figure]")) {
      const name = div.dataset.figure, redraw = () => draws[name](div, value.figures[name]);
      // A chart that is drawn out of sight has no width; it is drawn when it gets one.
      new ResizeObserver(([seen], observer) => {
        if (seen.contentRect.width === 0) return;
        observer.disconnect();
        charts.keep(div, redraw);
      }).observe(div);
    }
  }

  watch("value", () => show(props.value));
  show(props.value);
};
