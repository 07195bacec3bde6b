// Small plots in SVG, each with a text that says what it shows.

import { svg } from "./dom.js";

const WIDTH = 640;
const HEIGHT = 240;
const EDGE = { left: 64, right: 12, top: 12, bottom: 34 };

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

function scale(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

function ticks(low, high, wanted = 4) {
  const step = 10 ** Math.floor(Math.log10((high - low || 1) / wanted));
  const size = [1, 2, 5, 10].map((factor) => factor * step).find((one) => (high - low) / one <= wanted) || step;
  const found = [];
  for (let value = Math.ceil(low / size) * size; value <= high + size / 1e6; value += size) found.push(value);
  return found;
}

export function chart(kind, labels, numbers, options = {}) {
  const format = options.format || ((value) => short.format(value));
  const width = options.width || WIDTH;
  const height = options.height || HEIGHT;
  const given = numbers.filter((value) => Number.isFinite(value));
  const low = Math.min(0, ...given);
  const high = Math.max(...given, low + (low === 0 && !given.some((value) => value > 0) ? 1 : 0));
  const y = scale(low, high, height - EDGE.bottom, EDGE.top);
  const isNumeric = kind === "scatter" && labels.every((label) => Number.isFinite(label));
  const x = isNumeric
    ? scale(Math.min(...labels), Math.max(...labels), EDGE.left + 6, width - EDGE.right - 6)
    : scale(-0.5, numbers.length - 0.5, EDGE.left, width - EDGE.right);
  const at = (index) => x(isNumeric ? labels[index] : index);
  const image = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": options.label || kind });
  for (const value of ticks(low, high)) {
    image.append(
      svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value), class: "rule" }),
      svg("text", { x: EDGE.left - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)),
    );
  }
  marks(kind, image, numbers, at, y, (width - EDGE.left - EDGE.right) / numbers.length, low, labels);
  const every = isNumeric ? [] : spread(labels.length, Math.floor(width / 90));
  for (const index of every) {
    image.append(svg("text", { x: at(index), y: height - 12, "text-anchor": "middle" }, String(labels[index] ?? "").slice(0, 14)));
  }
  if (isNumeric) {
    for (const value of ticks(Math.min(...labels), Math.max(...labels), 6)) {
      image.append(svg("text", { x: x(value), y: height - 12, "text-anchor": "middle" }, short.format(value)));
    }
  }
  return image;
}

function marks(kind, image, numbers, at, y, room, low, labels) {
  if (kind === "line") {
    let path = "";
    numbers.forEach((value, index) => {
      if (Number.isFinite(value)) path += `${path ? "L" : "M"}${at(index).toFixed(1)} ${y(value).toFixed(1)}`;
    });
    image.append(svg("path", { d: path, class: "line" }));
    return;
  }
  numbers.forEach((value, index) => {
    if (!Number.isFinite(value)) return;
    const title = svg("title", {}, `${labels[index]}: ${value}`);
    if (kind === "scatter") {
      image.append(svg("circle", { cx: at(index), cy: y(value), r: 3.5, class: "dot" }, title));
      return;
    }
    const base = y(Math.max(low, 0));
    image.append(svg("rect", {
      x: at(index) - room * 0.4, width: Math.max(1, room * 0.8), y: Math.min(y(value), base), height: Math.abs(base - y(value)), class: "bar",
    }, title));
  });
}

function spread(length, wanted) {
  const step = Math.max(1, Math.ceil(length / Math.max(1, wanted)));
  return Array.from({ length: Math.ceil(length / step) }, (_, index) => index * step);
}
