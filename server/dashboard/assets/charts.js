/* Charts in the page's colours, drawn by Plotly. Loaded once; everything hangs on window.inferenceGym.charts.

   A chart is {title, unit, lines: [{name, values, side, dashed}], limits: [{label, value}], log}, see
   server/dashboard/scene.py. Colours are CSS variables of dashboard.css, read when a chart is drawn, so that a
   change between light and dark draws all charts anew. */
window.inferenceGym = window.inferenceGym || {};

inferenceGym.charts = (() => {
  // Fixed margins (px): the cover over what has not been played yet knows where the plot is (player.css).
  const MARGIN = { l: 58, r: 14, t: 10, b: 42 };
  const redraws = new Map();

  const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
  const sideColour = (side) => colour(`--ig-side-${side}`);

  function number(value, digits) {
    if (value === null || value === undefined) return "–";
    const text = value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    return text.replace("-", "−");
  }

  function layoutOf({ xTitle, yTitle, xRange, log }) {
    const axis = {
      gridcolor: colour("--ig-grid"), zeroline: false, linecolor: colour("--ig-grid"),
      tickfont: { size: 11 }, automargin: false, fixedrange: true,
    };
    return {
      margin: MARGIN, height: 210, showlegend: false, hovermode: "x unified",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: colour("--ig-text") },
      hoverlabel: { bgcolor: colour("--ig-card"), font: { color: colour("--ig-text") } },
      xaxis: { ...axis, title: { text: xTitle, standoff: 6 }, range: xRange },
      yaxis: {
        ...axis, title: { text: yTitle, standoff: 4 }, type: log ? "log" : "linear",
        rangemode: log ? "normal" : "tozero", nticks: 5, exponentformat: "none", minexponent: 9,
        ...(log ? { dtick: 1 } : {}),
      },
      shapes: [], annotations: [],
    };
  }

  function limitShapes(limits, log) {
    const y = (value) => (log ? Math.log10(value) : value);
    return {
      shapes: limits.map((limit) => ({
        type: "line", xref: "paper", x0: 0, x1: 1, yref: "y", y0: limit.value, y1: limit.value,
        line: { color: colour("--ig-limit"), width: 1.5, dash: "dash" },
      })),
      annotations: limits.map((limit) => ({
        xref: "paper", x: 0.01, xanchor: "left", yref: "y", y: y(limit.value), yanchor: "bottom",
        text: `${limit.label} ${number(limit.value, limit.value % 1 ? 1 : 0)}`, showarrow: false,
        font: { size: 11, color: colour("--ig-limit") },
      })),
    };
  }

  function draw(div, data, layout) {
    return Plotly.react(div, data, layout, { displayModeBar: false, responsive: true });
  }

  /* Lines over the steps of a scene. Returns once drawn. */
  function drawRun(div, chart, scene) {
    const layout = layoutOf({
      xTitle: scene.step_title, yTitle: chart.unit, xRange: [0, Math.max(scene.length, 1)], log: chart.log,
    });
    const limits = limitShapes(chart.limits, chart.log);
    layout.annotations = limits.annotations;
    layout.shapes = [
      ...scene.spans.map((span) => ({
        type: "rect", layer: "below", xref: "x", x0: span.first, x1: span.last, line: { width: 0 },
        yref: "paper", y0: span.side === 0 ? 0.5 : 0, y1: span.side === 1 ? 0.5 : 1,
        ...(span.side === null ? { fillcolor: colour(span.pressed ? "--ig-span-pressed" : "--ig-span") }
          : { fillcolor: sideColour(span.side), opacity: 0.16 }),
      })),
      ...limits.shapes,
    ];
    const data = chart.lines.map((line) => ({
      type: "scatter", mode: scene.steps > 3 ? "lines" : "lines+markers", name: line.name,
      x: line.values.map((_, step) => step + 1),
      y: chart.log ? line.values.map((value) => (value > 0 ? value : null)) : line.values,
      line: { color: sideColour(line.side), width: 2, dash: line.dashed ? "dot" : "solid" },
    }));
    return draw(div, data, layout);
  }

  /* What a chart of a run shows, in words, for who does not see it. */
  function describe(chart, scene) {
    const ends = chart.lines.map((line) => `${line.name} ends at ${number(lastOf(line.values), 2)}`);
    return `${chart.title}${chart.unit ? ` in ${chart.unit}` : ""} over ${scene.step_title}: ${ends.join("; ")}.`;
  }

  const lastOf = (values) => values.findLast((value) => value !== null) ?? null;

  /* Call `redraw` now and whenever the page turns dark or light; forgotten when `div` leaves the page. */
  function keep(div, redraw) {
    redraws.set(div, redraw);
    redraw();
  }

  new MutationObserver(() => {
    for (const [div, redraw] of redraws) {
      if (div.isConnected) redraw();
      else redraws.delete(div);
    }
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });

  return { MARGIN, colour, sideColour, number, layoutOf, limitShapes, draw, drawRun, describe, keep };
})();
