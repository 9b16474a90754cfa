// The two charts: loss, and where the seconds of a round went. Drawn by dygraphs, read out by us:
// what stands above a chart is text, for the point under the pointer or else the newest one.

import * as figures from "/figures.js";

const AXES = {
  round: {label: "round", at: (row) => row.version, show: (x) => figures.count(x)},
  tokens: {label: "tokens", at: (row) => row.allTokens, show: (x) => figures.large(x)},
  hours: {
    label: "hours",
    at: (row) => row.elapsed / 3600,
    show: (x) => `${x < 1 ? x.toFixed(3) : x.toFixed(2)} h`,
  },
};

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function readOut(key, title, parts) {
  const nodes = [];
  const add = (text, className, value) => {
    const span = document.createElement("span");
    if (className) span.className = className;
    span.append(`${text} `);
    const strong = document.createElement("b");
    strong.textContent = value;
    span.append(strong);
    nodes.push(span);
  };
  if (title) add(title.name, "", title.value);
  for (const part of parts) add(part.name, `name ${part.mark}`, part.value);
  key.replaceChildren(...nodes);
}

const looks = () => ({
  axisLineColor: colour("--line"),
  gridLineColor: colour("--line"),
  gridLineWidth: 1,
  axisLabelFontSize: 12,
  axisLabelWidth: 62,
  highlightCircleSize: 4,
  rightGap: 14,
});

// Stacked bars, all series at once: what comes later stands on what came before.
function bars(event) {
  if (event.seriesIndex !== 0) return;
  const context = event.drawingContext;
  const graph = event.dygraph;
  const points = event.allSeriesPoints;
  if (points[0].length === 0) return;
  const [low, high] = graph.xAxisRange();
  const pixels = graph.getArea().w / Math.max(1, high - low);
  const width = Math.max(1, Math.min(26, Math.floor(0.7 * pixels)));
  const colours = graph.getColors();
  for (let i = 0; i < points[0].length; ++i) {
    let sum = 0;
    let bottom = graph.toDomYCoord(0);
    for (let series = 0; series < points.length; ++series) {
      const value = points[series][i].yval;
      if (!(value > 0)) continue;
      sum += value;
      const top = graph.toDomYCoord(sum);
      context.fillStyle = colours[series];
      context.fillRect(points[0][i].canvasx - width / 2, top, width, bottom - top);
      bottom = top;
    }
  }
}

// Its legend writes styles into markup, which the page's own policy forbids; ours is text.
Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

class Chart {
  constructor(name) {
    this.place = document.getElementById(`${name}-chart`);
    this.key = document.getElementById(`${name}-key`);
    this.empty = document.getElementById(`${name}-empty`);
    this.graph = null;
    this.rows = [];
    this.chosen = null;  // the row under the pointer
  }

  draw(data, options) {
    this.empty.hidden = data.length > 0;
    if (data.length === 0) {
      if (this.graph) this.graph.destroy();
      this.graph = null;
      return;
    }
    const all = {...options, ...looks(), file: data};
    if (this.graph) {
      this.graph.updateOptions(all);
    } else {
      delete all.file;
      this.graph = new Dygraph(this.place, data, {
        ...all,
        highlightCallback: (event, x, points, row) => this.choose(row),
        unhighlightCallback: () => this.choose(null),
      });
    }
  }

  choose(row) {
    this.chosen = row;
    this.tell();
  }

  redraw() {
    if (this.graph) this.show(this.rows);
  }
}

// Of a point of the chart, which has NaN where the coordinator has a word.
function lossOf(value) {
  return figures.loss(value === null || Number.isFinite(value) ? value : String(value));
}

export class LossChart extends Chart {
  constructor() {
    super("loss");
    this.axis = "round";
  }

  use(axis) {
    this.axis = axis;
    if (this.graph) this.graph.destroy();  // another axis, another zoom
    this.graph = null;
    this.chosen = null;
    this.show(this.rows);
  }

  // rows: {version, allTokens, elapsed, train, validation}, by version.
  show(rows) {
    this.rows = rows.filter((row) => row.train !== null || row.validation !== null);
    const axis = AXES[this.axis];
    const data = this.rows.map((row) => [axis.at(row), row.train, row.validation]);
    this.draw(data, {
      labels: [axis.label, "training", "validation"],
      colors: [colour("--series-a"), colour("--series-b")],
      series: {
        training: {strokeWidth: 2, drawPoints: data.length < 30, pointSize: 2},
        validation: {strokeWidth: 2, drawPoints: data.length < 300, pointSize: 3},
      },
      connectSeparatedPoints: true,
      xRangePad: 6,
      axes: {
        x: {axisLabelFormatter: axis.show, valueFormatter: axis.show, pixelsPerLabel: 80},
        y: {axisLabelFormatter: (y) => y.toPrecision(3), axisLabelWidth: 44},
      },
    });
    this.tell();
  }

  tell() {
    const axis = AXES[this.axis];
    const newest = this.rows[this.rows.length - 1];
    const row = this.chosen === null ? newest : this.rows[this.chosen] || newest;
    if (!row) return readOut(this.key, null, []);
    const before = (name) => {
      for (let i = this.rows.indexOf(row); i >= 0; --i) {
        if (this.rows[i][name] !== null) return this.rows[i][name];
      }
      return null;
    };
    const title = {name: axis.label, value: axis.show(axis.at(row))};
    const parts = [
      {name: "training", mark: "a", value: lossOf(before("train"))},
      {name: "validation", mark: "b", value: lossOf(before("validation"))},
    ];
    readOut(this.key, title, parts);
    this.place.setAttribute("aria-label",
        `Loss by ${axis.label}: training ${parts[0].value}, validation ${parts[1].value}`);
  }
}

export class TimeChart extends Chart {
  constructor() {
    super("time");
    this.zoomed = false;
  }

  show(rows) {
    this.rows = rows.filter((row) => row.trained !== null);
    const data = this.rows.map((row) => [row.version, row.trained, row.exchanged, row.audited]);
    const largest = Math.max(0, ...this.rows.map((r) => r.trained + r.exchanged + r.audited));
    const first = data.length ? data[0][0] : 0;
    const last = data.length ? data[data.length - 1][0] : 1;
    this.draw(data, {
      labels: ["round", "trained", "exchanged", "audited"],
      colors: [colour("--series-a"), colour("--series-b"), colour("--series-c")],
      plotter: bars,
      valueRange: [0, 1.1 * largest || 1],
      // What the reader chose stays; otherwise the window grows with the run.
      zoomCallback: (low, high) => {
        this.zoomed = low > first + 0.01 || high < last - 0.01;
        if (!this.zoomed) this.show(this.rows);
      },
      ...(this.zoomed ? {} : {dateWindow: [first - 0.7, Math.max(last, first + 9) + 0.7]}),
      axes: {
        x: {
          axisLabelFormatter: (x) => (Number.isInteger(x) ? figures.count(x) : ""),
          pixelsPerLabel: 60,
        },
        y: {axisLabelFormatter: (y) => `${Number(y.toPrecision(3))} s`, axisLabelWidth: 52},
      },
    });
    this.tell();
  }

  tell() {
    const newest = this.rows[this.rows.length - 1];
    const row = this.chosen === null ? newest : this.rows[this.chosen] || newest;
    if (!row) return readOut(this.key, null, []);
    const parts = [
      {name: "trained", mark: "a", value: figures.seconds(row.trained)},
      {name: "exchanged", mark: "b", value: figures.seconds(row.exchanged)},
      {name: "audited", mark: "c", value: figures.seconds(row.audited)},
    ];
    readOut(this.key, {name: "round", value: figures.count(row.version)}, parts);
    this.place.setAttribute("aria-label", `Seconds of round ${row.version}: ` +
        parts.map((part) => `${part.name} ${part.value}`).join(", "));
  }
}
