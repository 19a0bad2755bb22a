"use strict";
// Functions that the scripts of all pages share.

const $ = (id) => document.getElementById(id);
const NS = "http://www.w3.org/2000/svg";
const show = (element, yes) => { if (element) element.style.display = yes ? "" : "none"; };

function svg(tag, attributes, parent, text) {
  const element = document.createElementNS(NS, tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

function html(tag, text, parent, css) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (css) element.className = css;
  if (parent) parent.append(element);
  return element;
}

// ---- Texts of numbers; NaN and infinities are strings -------------------------------------------------------------

function short(x) {
  if (x === null || x === undefined) return "";
  if (typeof x === "string") return x;
  if (x === 0 || (Math.abs(x) >= 0.001 && Math.abs(x) < 10000)) return String(Number(x.toPrecision(3)));
  return x.toExponential(1).replace(".0e", "e").replace("e+", "e");
}

function seconds(x) {
  return x < 1e-3 ? `${(x * 1e6).toFixed(1)} us` : x < 1 ? `${(x * 1e3).toFixed(2)} ms` : `${x.toFixed(2)} s`;
}

function bytes(x) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (x < 1024) return `${unit === "B" ? x : x.toPrecision(3)} ${unit}`;
    x /= 1024;
  }
  return `${x.toPrecision(3)} GiB`;
}

// ---- Scales and curves --------------------------------------------------------------------------------------------

function niceTicks(low, high, count) {
  const raw = (high - low) / count || 1, unit = 10 ** Math.floor(Math.log10(raw));
  const size = [1, 2, 5, 10].find((m) => m * unit >= raw) * unit;
  const ticks = [];
  for (let x = Math.ceil(low / size); x * size <= high + size * 1e-9; x++) ticks.push(Number((x * size).toPrecision(12)));
  return ticks;
}

// The scale from values to pixels between the heights `top` (the largest value) and `bottom`.
function upScale(values, log, top, bottom, fixed) {
  const known = values.filter((x) => typeof x === "number" && (!log || x > 0));
  if (!known.length) return null;
  let low = Infinity, high = -Infinity;
  for (const x of known) { if (x < low) low = x; if (x > high) high = x; }
  if (fixed) [low, high] = fixed;
  if (log) {
    if (high / low < 1.5) { low /= 1.5; high *= 1.5; }
    const from = Math.log10(low), to = Math.log10(high), span = to - from;
    const factors = span < 2.2 ? [1, 2, 5] : [1], each = Math.max(1, Math.ceil(span / 6));
    const ticks = [];
    for (let e = Math.floor(from); e <= Math.ceil(to); e++) {
      if (e % each) continue;
      for (const f of factors) if (f * 10 ** e >= low * 0.999 && f * 10 ** e <= high * 1.001) ticks.push(f * 10 ** e);
    }
    if (ticks.length < 3 && span < 1) ticks.splice(0, ticks.length, ...niceTicks(low, high, 4));
    if (ticks.length < 2) ticks.splice(0, ticks.length, low, high);
    return { place: (x) => top + (1 - (Math.log10(x) - from) / span) * (bottom - top), ticks, low, high, log };
  }
  if (low === high) { low -= Math.abs(low) / 2 || 0.5; high += Math.abs(high) / 2 || 0.5; }
  return { place: (x) => top + (1 - (x - low) / (high - low)) * (bottom - top), ticks: niceTicks(low, high, 5), low, high };
}

// The lines and numbers of a scale, with as many digits as tell the numbers apart.
function ruled(plot, scale, left, right) {
  let texts = scale.ticks.map(short);
  for (let digits = 2; digits < 7 && new Set(texts).size < texts.length; digits++) texts = scale.ticks.map((y) => String(Number(y.toPrecision(digits))));
  scale.ticks.forEach((y, index) => {
    svg("line", { x1: left, x2: right, y1: scale.place(y), y2: scale.place(y), class: "grid" }, plot);
    svg("text", { x: left - 6, y: scale.place(y) + 4, "text-anchor": "end" }, plot, texts[index]);
  });
}

// The path of a curve through (across(index), value); gaps where a value is missing.
function curvePath(values, scale, across) {
  let text = "", pen = false;
  const drawn = (y) => typeof y === "number" && (!scale.log || y > 0);
  values.forEach((y, index) => {
    if (drawn(y)) {
      const alone = !pen && !drawn(values[index + 1]);
      text += `${pen ? "L" : "M"}${across(index).toFixed(1)} ${scale.place(y).toFixed(1)}${alone ? "h.01" : ""}`;
    }
    pen = drawn(y);
  });
  return text;
}

// ---- The colors of gradients: the same as gradients.py ----------------------------------------------------------

function levelOf(norm, scale) {
  if (norm === null || norm === undefined) return "none";
  if (typeof norm === "string") return "bad";
  if (norm === 0) return "zero";
  const away = Math.log10(norm / scale.usual), strength = scale.steps.filter((step) => Math.abs(away) >= step).length;
  return strength ? `${away < 0 ? "low" : "high"}${strength}` : "even";
}
const LEVELS = ["zero", "low3", "low2", "low1", "even", "high1", "high2", "high3", "bad", "none"];
