// The page of a drawing: pan, zoom, fold, search, and details of each item. `DATA` is written by page.py.
"use strict";

// ---- Positions: the same as placing.py, line for line -------------------------------------------------------------

function segments(level) {
  const row = new Map(), found = [], last = level.rows.length - 1;
  level.rows.forEach((slots, r) => slots.forEach((slot) => { if (slot >= 0) row.set(slot, r); }));
  level.nets.forEach((net, number) => {
    const first = net.source >= 0 ? row.get(net.source) : 0;
    const lowest = net.leaves ? last : Math.max(...net.targets.map((target) => row.get(target))) - 1;
    const at = (r) => (r === first && net.source >= 0 ? net.source : ~number);
    for (let r = first; r < lowest; r++) found.push([r, at(r), ~number, number]);
    for (const target of net.targets) found.push([row.get(target) - 1, at(row.get(target) - 1), target, number]);
  });
  return found;
}

function place(level, items, least, C) {
  const rows = level.rows, boxed = level.box >= 0, first = [0], slots = rows.flat();
  rows.forEach((row) => first.push(first[first.length - 1] + row.length));
  const number = rows.map((row, r) => new Map(row.map((slot, i) => [slot, first[r] + i])));
  const half = slots.map((slot) => (slot >= 0 ? items[slot].width + C.APART : C.LINE) / 2);
  const ties = segments(level).map(([row, upper, lower, net]) => {
    const value = level.nets[net].value;
    const outer = upper >= 0 ? items[upper].inside : null, inner = lower >= 0 ? items[lower].inside : null;
    return {
      row, upper, lower, net, start: number[row].get(upper), end: number[row + 1].get(lower),
      out: outer ? outer.outward.get(value) : 0, into: inner ? inner.inward.get(value) : 0,
    };
  });
  const links = slots.map(() => []);
  for (const tie of ties) {
    const ofLeaf = tie.upper >= 0 && items[tie.upper].leaf;
    const pull = tie.upper < 0 && tie.lower < 0 ? C.STRAIGHT : ofLeaf ? C.LIGHT : 1;
    links[tie.end].push([tie.start, tie.out - tie.into, ofLeaf ? C.LIGHT * C.LIGHT : pull]);
    links[tie.start].push([tie.end, tie.into - tie.out, pull]);
  }
  let x = settled(first, half, links, C);
  straighten(level, first, number, half, x);
  let left = 0, right = 0;
  slots.forEach((_, i) => {
    left = i ? Math.min(left, x[i] - half[i]) : x[i] - half[i];
    right = i ? Math.max(right, x[i] + half[i]) : x[i] + half[i];
  });
  left += C.APART / 2;
  const width = right - C.APART / 2 - left, full = boxed ? Math.max(width + 2 * C.SIDE, least) : width;
  x = x.map((position) => position - left + (full - width) / 2);
  const placed = { width: full, height: 0, centers: [], tops: [], inward: new Map(), outward: new Map() };
  level.nets.forEach((net, i) => {
    if (net.source < 0) placed.inward.set(net.value, x[number[0].get(~i)] - full / 2);
    if (net.leaves) placed.outward.set(net.value, x[number[rows.length - 1].get(~i)] - full / 2);
  });
  route(level, items, ties, x, number, placed, C);
  return placed;
}

function settled(first, half, links, C) {
  const x = half.map(() => 0), count = first.length - 1;
  for (let r = 0; r < count; r++) {
    let at = 0;
    for (let i = first[r]; i < first[r + 1]; i++) at -= half[i];
    for (let i = first[r]; i < first[r + 1]; i++) { x[i] = at + half[i]; at += 2 * half[i]; }
  }
  for (let sweep = 0; sweep < C.SWEEPS; sweep++) {
    const downward = sweep % 2 === 0;
    for (let k = 0; k < count; k++) {
      const r = downward ? k : count - 1 - k, low = first[r], pools = [];
      let offset = 0;
      for (let i = low; i < first[r + 1]; i++) {
        if (i > low) offset += half[i - 1] + half[i];
        let total = 0, weight = 0;
        for (const [neighbor, shift, pull] of links[i]) {
          if (sweep >= 2 || neighbor < low === downward) { total += pull * (x[neighbor] + shift); weight += pull; }
        }
        if (weight === 0) { total = 0.01 * x[i]; weight = 0.01; }
        let pool = [total - weight * offset, weight, 1];
        while (pools.length && pools[pools.length - 1][0] * pool[1] >= pool[0] * pools[pools.length - 1][1]) {
          const before = pools.pop();
          pool = [before[0] + pool[0], before[1] + pool[1], before[2] + pool[2]];
        }
        pools.push(pool);
      }
      let i = low;
      offset = 0;
      for (const [total, weight, many] of pools) {
        for (let k = 0; k < many; k++) {
          if (i > low) offset += half[i - 1] + half[i];
          x[i++] = total / weight + offset;
        }
      }
    }
  }
  return x;
}

function straighten(level, first, number, half, x) {
  const passing = level.nets.map(() => []);
  level.rows.forEach((row, r) => row.forEach((slot) => { if (slot < 0) passing[~slot].push(r); }));
  passing.forEach((crossed, net) => {
    let low = -Infinity, high = Infinity, total = 0;
    for (const r of crossed) {
      const i = number[r].get(~net);
      if (i > first[r]) low = Math.max(low, x[i - 1] + half[i - 1] + half[i]);
      if (i + 1 < first[r + 1]) high = Math.min(high, x[i + 1] - half[i + 1] - half[i]);
      total += x[i];
    }
    if (crossed.length > 1 && low <= high) {
      const line = Math.min(Math.max(total / crossed.length, low), high);
      for (const r of crossed) x[number[r].get(~net)] = line;
    }
  });
}

function route(level, items, ties, x, number, placed, C) {
  const enter = entries(level, items, ties, x, C), leave = exits(level, items), swing = level.rows.map(() => 0);
  const ends = ties.map((tie, i) => {
    const x1 = x[tie.start] + (tie.upper >= 0 && !items[tie.upper].inside ? leave[tie.net] : tie.out);
    const x2 = x[tie.end] + (tie.lower >= 0 && !items[tie.lower].inside ? enter[i] : tie.into);
    swing[tie.row] = Math.max(swing[tie.row], Math.abs(x2 - x1));
    return [x1, x2];
  });
  const [tops, bottoms] = stacked(level, items, x, number, swing, placed, C), n = (value) => value.toFixed(1);
  placed.paths = level.nets.map(() => "");
  placed.heads = level.nets.map(() => "");
  placed.labels = level.nets.map(() => [0, 0]);
  ties.forEach((tie, i) => {
    const [x1, x2] = ends[i], { row: r, upper, lower, net } = tie;
    let y1 = bottoms[r], turn = bottoms[r];
    if (upper >= 0) {
      y1 = placed.tops[upper] + items[upper].height;
      placed.labels[net] = [x1, y1];
      turn += items[upper].inside ? 0 : C.TRUNK;
    } else if (r === 0 && level.nets[net].source < 0) y1 = tops[r];
    let y2 = lower >= 0 ? placed.tops[lower] : bottoms[r + 1];
    if (lower >= 0 && !items[lower].inside) {
      placed.heads[net] += `M${n(x2 - 3.5)} ${n(y2 - 6)}h7l-3.5 6z`;
      y2 -= 5;
    }
    const landing = Math.min(tops[r + 1], y2), middle = (turn + landing) / 2;
    const curve = `C${n(x1)} ${n(middle)} ${n(x2)} ${n(middle)} ${n(x2)} ${n(landing)}`;
    placed.paths[net] += `M${n(x1)} ${n(y1)}V${n(turn)}${curve}V${n(y2)}`;
  });
}

function entries(level, items, ties, x, C) {
  const arriving = new Map(), enter = ties.map(() => 0);
  ties.forEach((tie, i) => {
    if (tie.lower < 0) return;
    if (!arriving.has(tie.lower)) arriving.set(tie.lower, []);
    arriving.get(tie.lower).push([x[tie.start], i]);
  });
  for (const [item, arrivals] of arriving) {
    arrivals.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const central = [];
    arrivals.forEach(([, tie], i) => {
      if (!level.nets[ties[tie].net].leaf) central.push(i);
    });
    const last = arrivals.length - 1, middle = central.length ? (central[0] + central[central.length - 1]) / 2 : last / 2;
    const reach = Math.max(middle, last - middle), step = reach ? Math.min(C.STEP, (items[item].width / 2 - 8) / reach) : 0;
    arrivals.forEach(([, tie], i) => { enter[tie] = (i - middle) * step; });
  }
  return enter;
}

function exits(level, items) {
  const given = new Map(), leave = level.nets.map(() => 0);
  const order = level.nets.map((net, i) => [net.vertex, net.output, i]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  for (const [, , i] of order) {
    const source = level.nets[i].source;
    if (!given.has(source)) given.set(source, []);
    given.get(source).push(i);
  }
  for (const [source, nets] of given) {
    const step = source >= 0 ? (items[source].width - 16) / nets.length : 0;
    nets.forEach((net, i) => { leave[net] = (i - (nets.length - 1) / 2) * step; });
  }
  return leave;
}

function stacked(level, items, x, number, swing, placed, C) {
  const tops = [], bottoms = [], last = level.rows.length - 1;
  const enters = level.nets.some((net) => net.source < 0), leaves = level.nets.some((net) => net.leaves);
  let y = 0;
  level.rows.forEach((row, r) => {
    const entrance = enters && r === 0, exitNext = leaves && r === last - 1;
    let height = Math.max(0, ...row.filter((slot) => slot >= 0).map((slot) => items[slot].height));
    if (level.box >= 0 && r === 0) { y = entrance ? 0 : C.HEADER + 6; height = entrance ? C.HEADER : height; }
    tops.push(y);
    bottoms.push(y + height);
    for (const slot of row) {
      if (slot < 0) continue;
      placed.centers[slot] = x[number[r].get(slot)];
      placed.tops[slot] = y + (height - items[slot].height) * (items[slot].leaf ? 1 : 0.5);
    }
    y += height;
    if (r < last) y += (entrance ? C.PORT_GAP : exitNext ? C.PORT_GAP + C.TRUNK : C.GAP) + Math.min(0.08 * swing[r], 60);
  });
  placed.height = y + (level.box >= 0 && !leaves ? C.FOOTER : 0);
  return [tops, bottoms];
}

// ---- Folding: the levels of open boxes are placed, inner before outer, and drawn ---------------------------------

function arranged(data, opened) {
  const placed = new Map(), shown = (key) => key < 0 || (opened.has(key) && shown(data.boxes[key].parent));
  const visible = data.boxes.map((box, key) => key).filter(shown), root = data.levels.length - 1;
  for (const key of [...visible.slice().reverse(), -1]) {
    const level = data.levels[key < 0 ? root : key];
    const items = level.items.map((item) => {
      if (item >= 0) return data.vertices[item];
      const inside = placed.get(~item), box = data.boxes[~item];
      return inside ? { width: inside.width, height: inside.height, inside } : box;
    });
    const result = place(level, items, key < 0 ? 0 : data.boxes[key].least, data.constants);
    placed.set(key, Object.assign(result, { items, level }));
  }
  const origin = new Map([[-1, [0, 0]]]), corner = new Map();
  for (const key of [-1, ...visible]) {
    const { items, level, centers, tops } = placed.get(key), [x0, y0] = origin.get(key);
    level.items.forEach((item, i) => {
      const at = [x0 + centers[i] - items[i].width / 2, y0 + tops[i]];
      corner.set(item, { x: at[0], y: at[1], width: items[i].width, height: items[i].height, level: key, place: i });
      if (item < 0) origin.set(~item, at);
    });
  }
  return { placed, origin, corner };
}

// Turn the lists of numbers, which keep the page small, into nets.
function unpack(data) {
  for (const level of data.levels) {
    level.nets = level.nets.map(([vertex, output, source, targets, leaves]) => (
      { vertex, output, source, targets, leaves: !!leaves, leaf: data.vertices[vertex].kind === "parameter", value: `${vertex}.${output}` }));
  }
}

if (typeof module !== "undefined") module.exports = { arranged, unpack };
