// The graph: vertices in the layers placed by the Python side; zoom, search, details.

const WIDTH = 200,
  HEIGHT = 64,
  ACROSS = 200,
  DOWN = 112;
const net = at("net"),
  canvas = at("canvas"),
  map = at("map");
const vertices = [
  ...data.inputs.map((t) => ({ end: "input", tensor: t })),
  ...operators.map((o, number) => ({ number, operator: o })),
  ...data.outputs.map((t) => ({ end: "output", tensor: t })),
];
vertices.forEach((v, i) => {
  v.x = layout.x[i] * ACROSS;
  v.y = layout.layer[i] * DOWN;
});
const extent = {
  left: Math.min(0, ...layout.bends.flat().map((x) => x * ACROSS)) - WIDTH / 2,
  right: Math.max(WIDTH, ...vertices.map((v) => v.x)) + WIDTH / 2,
  top: -HEIGHT / 2,
  bottom: Math.max(0, ...vertices.map((v) => v.y)) + HEIGHT / 2,
};
const space = draw("g", {});
const slowest = Math.max(...operators.map(share), 1e-9);
const devices = [...new Set(operators.map((o) => o.device))];
const DEVICE_COLOURS = ["movement", "device", "convolution", "elementwise", "product"];

function colourOfVertex(v, by) {
  if (v.end) return "var(--ends)";
  if (by === "device") return colourOf(DEVICE_COLOURS[devices.indexOf(v.operator.device) % 5]);
  if (by === "time") {
    const heat = Math.round(75 * Math.sqrt(share(v.operator) / slowest));
    return `color-mix(in srgb, var(--mark) ${heat}%, var(--panel))`;
  }
  return colourOf(v.operator.kind);
}

// Title of an operator: its types, without those that only change how numbers are stored.
const STORED = new Set(["QuantizeLinear", "DequantizeLinear", "Transpose"]);
function headOf(number) {
  const types = typesOf[number].split(" · ");
  const main = types.filter((type) => !STORED.has(type));
  const text = (main.length ? main : types).join(" · ");
  return text.length > 22 ? `${text.slice(0, 21)}…` : text;
}

function lines(v) {
  if (v.end) return [v.tensor.name, `${v.end} · ${shape(v.tensor.shape)}`, v.tensor.dtype];
  const result = v.operator.writes[0];
  const time = v.operator.seconds
    ? `${seconds(v.operator.seconds)}, ${percent(share(v.operator))}`
    : "";
  return [headOf(v.number), result ? shape(result.shape) : "", time];
}

// Drawing all vertices of a large graph at once is slow: a vertex is drawn when it first comes near
// the view, and is then kept.
let colouring = "kind",
  found = new Set();
function drawVertex(v) {
  const [head, second, third] = lines(v);
  const title = v.end ? v.tensor.name : v.operator.name;
  v.element = draw(
    "g",
    {
      class: v.end ? "vertex end" : "vertex",
      role: "option",
      id: `v${v.place}`,
      "aria-selected": String(!v.end && v.number === selected),
      "aria-posinset": v.place + 1,
      "aria-setsize": vertices.length,
      transform: `translate(${v.x - WIDTH / 2},${v.y - HEIGHT / 2})`,
      onclick: () => {
        if (!dragged && !v.end) select(v.number);
      },
    },
    draw("title", {}, title),
    draw("rect", { class: "body", width: WIDTH, height: HEIGHT, rx: 10 }),
    draw("rect", { class: "stripe", x: 6, y: 8, width: 5, height: HEIGHT - 16, rx: 2.5 }),
    draw("text", { class: "head", x: 20, y: 22 }, `${shorten(head, 22)} `),
    draw("text", { class: "small", x: 20, y: 39 }, `${shorten(second, 28)} `),
    draw("text", { class: "small", x: 20, y: 54 }, third),
  );
  if (!v.end && share(v.operator)) {
    const width = Math.max(1, ((WIDTH - 20) * share(v.operator)) / slowest);
    v.element.append(
      draw("rect", { class: "share", x: 10, y: HEIGHT - 4, width, height: 3, rx: 1.5 }),
    );
  }
  dress(v);
  verticesGroup.append(v.element);
}
function dress(v) {
  if (!v.element) return;
  v.element.style.setProperty("--c", colourOfVertex(v, colouring));
  v.element.classList.toggle("heat", colouring === "time" && !v.end);
  v.element.classList.toggle("hit", found.has(v.number));
}
const verticesGroup = draw("g", {}),
  rows = [];
vertices.forEach((v, i) => {
  v.place = i;
  (rows[layout.layer[i]] = rows[layout.layer[i]] || []).push(v);
});
function drawNear() {
  const tall = canvas.clientHeight / view.k;
  const from = Math.max(0, Math.floor((view.y - tall / 2) / DOWN));
  const to = Math.min(rows.length - 1, Math.ceil((view.y + 1.5 * tall) / DOWN));
  for (let row = from; row <= to; row += 1) {
    for (const v of rows[row] || []) if (!v.element) drawVertex(v);
  }
}

function edgePath(a, b, bends) {
  let x = a.x,
    y = a.y + HEIGHT / 2;
  let path = `M${x},${y}`;
  const to = (nx, ny) => {
    const middle = (y + ny) / 2;
    path += Math.abs(nx - x) < 0.5 ? `L${nx},${ny}` : `C${x},${middle} ${nx},${middle} ${nx},${ny}`;
    x = nx;
    y = ny;
  };
  bends.forEach((bend, i) => {
    const layer = a.y + (i + 1) * DOWN;
    to(bend * ACROSS, layer - HEIGHT / 2);
    to(bend * ACROSS, layer + HEIGHT / 2);
  });
  to(b.x, b.y - HEIGHT / 2);
  return path;
}

const edgesOf = vertices.map(() => []);
function drawEdges() {
  const group = draw("g", { "aria-hidden": "true" });
  data.edges.forEach(([a, b], i) => {
    const d = edgePath(vertices[a], vertices[b], layout.bends[i]);
    const path = draw("path", { class: "edge", d });
    edgesOf[a].push(path);
    edgesOf[b].push(path);
    group.append(path);
  });
  return group;
}

// The view: its corner shows the point (x, y) of the graph, magnified k times.
const view = { x: 0, y: 0, k: 1 };
let waiting = false;
function show() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    space.setAttribute("transform", `scale(${view.k}) translate(${-view.x},${-view.y})`);
    space.classList.toggle("far", view.k < 0.32);
    drawNear();
    drawMap();
  });
}
function zoom(factor, px = canvas.clientWidth / 2, py = canvas.clientHeight / 2) {
  const k = Math.min(3, Math.max(0.02, view.k * factor));
  view.x += px / view.k - px / k;
  view.y += py / view.k - py / k;
  view.k = k;
  show();
}
function fitGraph(least) {
  const width = canvas.clientWidth,
    height = canvas.clientHeight,
    margin = 24;
  const wide = extent.right - extent.left + 2 * margin,
    tall = extent.bottom - extent.top + 2 * margin;
  view.k = Math.min(1, Math.max(least, Math.min(width / wide, height / tall)));
  const middle = width / wide < view.k ? vertices[0].x : (extent.left + extent.right) / 2;
  view.x = middle - width / view.k / 2;
  view.y = extent.top - margin - Math.max(0, (height / view.k - tall) / 2);
  show();
}
function reveal(v) {
  if (view.k < 0.5) view.k = 0.8;
  view.x = v.x - canvas.clientWidth / view.k / 2;
  view.y = v.y - canvas.clientHeight / view.k / 2;
  show();
}

// The small map on the right: all vertices and the outline of the view.
let mapScale = 1,
  mapLeft = 0,
  mapTop = 0;
function drawMap() {
  const ratio = window.devicePixelRatio || 1,
    width = map.clientWidth,
    height = map.clientHeight;
  if (!width) return;
  map.width = width * ratio;
  map.height = height * ratio;
  const context = map.getContext("2d"),
    style = getComputedStyle(document.documentElement);
  context.scale(ratio, ratio);
  const wide = extent.right - extent.left,
    tall = extent.bottom - extent.top;
  const across = Math.min(width / wide, 0.08),
    down = Math.min(height / tall, 0.08);
  mapScale = { across, down };
  mapLeft = (width - wide * across) / 2;
  mapTop = 0;
  for (const v of vertices) {
    const kind = v.end ? "ends" : v.operator.kind;
    context.fillStyle = style.getPropertyValue(`--${kind}`);
    context.fillRect(
      mapLeft + (v.x - WIDTH / 2 - extent.left) * across,
      (v.y - HEIGHT / 2 - extent.top) * down,
      Math.max(1.5, WIDTH * across),
      Math.max(0.8, HEIGHT * down),
    );
  }
  context.strokeStyle = style.getPropertyValue("--accent");
  context.lineWidth = 1.5;
  context.strokeRect(
    Math.max(1, mapLeft + (view.x - extent.left) * across),
    Math.max(1, (view.y - extent.top) * down),
    Math.min(width - 2, (canvas.clientWidth / view.k) * across),
    Math.min(height - 2, Math.max(3, (canvas.clientHeight / view.k) * down)),
  );
}
function goToMap(event) {
  const box = map.getBoundingClientRect();
  view.x =
    (event.clientX - box.left - mapLeft) / mapScale.across +
    extent.left -
    canvas.clientWidth / view.k / 2;
  view.y =
    (event.clientY - box.top - mapTop) / mapScale.down +
    extent.top -
    canvas.clientHeight / view.k / 2;
  show();
}

// Pointers: one drags, two zoom.
const fingers = new Map();
let dragged = false,
  travelled = 0;
function pointerMoves(event) {
  const before = fingers.get(event.pointerId);
  if (!before) return;
  const now = { x: event.clientX, y: event.clientY };
  if (fingers.size === 2) {
    const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
    const distance = (a) => Math.max(1, Math.hypot(a.x - other.x, a.y - other.y));
    const box = canvas.getBoundingClientRect();
    zoom(
      distance(now) / distance(before),
      (now.x + other.x) / 2 - box.left,
      (now.y + other.y) / 2 - box.top,
    );
    dragged = true;
  } else {
    travelled += Math.hypot(now.x - before.x, now.y - before.y);
    if (travelled > 4) {
      dragged = true;
      view.x -= (now.x - before.x) / view.k;
      view.y -= (now.y - before.y) / view.k;
      show();
    }
  }
  fingers.set(event.pointerId, now);
}
function listenToPointers() {
  net.addEventListener("pointerdown", (event) => {
    if (!fingers.size) {
      dragged = false;
      travelled = 0;
    }
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  window.addEventListener("pointermove", pointerMoves);
  for (const name of ["pointerup", "pointercancel"]) {
    window.addEventListener(name, (event) => fingers.delete(event.pointerId));
  }
  net.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== net) return;
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
    },
    { passive: false },
  );
  map.addEventListener("pointerdown", (event) => {
    map.setPointerCapture(event.pointerId);
    goToMap(event);
  });
  map.addEventListener("pointermove", (event) => {
    if (event.buttons) goToMap(event);
  });
}

function pressed(event) {
  const last = operators.length - 1;
  const moves = {
    ArrowDown: () => (selected === null ? 0 : Math.min(last, selected + 1)),
    ArrowUp: () => (selected === null ? 0 : Math.max(0, selected - 1)),
    Home: () => 0,
    End: () => last,
  };
  moves.ArrowRight = moves.ArrowDown;
  moves.ArrowLeft = moves.ArrowUp;
  if (moves[event.key] && last >= 0) select(moves[event.key](), { show: true });
  else if (event.key === "+" || event.key === "=") zoom(1.3);
  else if (event.key === "-") zoom(1 / 1.3);
  else if (event.key === "0") fitGraph(0.06);
  else if (event.key === "Escape") select(null);
  else return;
  event.preventDefault();
}

// Search: every word must occur in the operator's names, nodes, types or device.
let hits = [],
  hit = 0;
const texts = operators.map((o, i) =>
  [o.name, o.op, o.kind, o.device, ...o.onnx_nodes, ...o.fused, typesOf[i]].join(" ").toLowerCase(),
);
function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  hits = words.length
    ? operators.map((_, i) => i).filter((i) => words.every((w) => texts[i].includes(w)))
    : [];
  found = new Set(hits);
  space.classList.toggle("searching", words.length > 0);
  vertices.forEach(dress);
  at("found").textContent = words.length ? `${hits.length} found` : "";
  hit = -1;
  if (hits.length) reveal(vertices[firstOperator + hits[0]]);
}
function nextHit() {
  if (!hits.length) return;
  hit = (hit + 1) % hits.length;
  select(hits[hit], { show: true });
  at("found").textContent = `${hit + 1} of ${hits.length}`;
}

function paint(by) {
  colouring = by;
  vertices.forEach(dress);
  const legend = at("legend");
  legend.replaceChildren();
  const entry = (colour, text) => legend.append(make("span", { style: `--c:${colour}` }, text));
  if (by === "kind") {
    legend.append(...kindsLegend());
  } else if (by === "device") {
    devices.forEach((name, i) => entry(colourOf(DEVICE_COLOURS[i % 5]), name));
  } else {
    entry(
      "color-mix(in srgb, var(--mark) 75%, var(--panel))",
      `slowest, ${percent(slowest)} of the time`,
    );
    entry("var(--panel)", "no time");
  }
}

// Details of the selected operator.
function tensorList(title, tensors, number) {
  if (!tensors.length) return [];
  const rows = tensors.map((t) => {
    const maker = title === "Reads" ? makerOf.get(t.name) : undefined;
    const where = maker !== undefined && maker !== number ? nameButton(maker) : t.name;
    const text = ` ${t.dtype} ${shape(t.shape)}, ${bytes(t.nbytes)}${t.constant ? ", constant" : ""}`;
    return make("li", {}, where, text);
  });
  return [make("h3", {}, title), make("ul", {}, ...rows)];
}
const makerOf = new Map();
operators.forEach((o, i) => o.writes.forEach((t) => makerOf.set(t.name, i)));

function details(number) {
  const panel = at("details");
  if (number === null) {
    panel.replaceChildren(
      make("h3", {}, "Select an operator"),
      make(
        "p",
        { class: "quiet" },
        "Click a box, or press an arrow key in the graph: shapes, bytes, " +
          "time, and which device has it or why none does.",
      ),
    );
    return;
  }
  const o = operators[number];
  const pairs = [
    ["kind", make("span", { class: "dot", style: `--c:${colourOf(o.kind)}` }, o.kind)],
    ["device", o.device],
    ["time", o.seconds ? `${seconds(o.seconds)}, ${percent(share(o))} of all` : "not measured"],
    ["work", o.macs ? `${work(o.macs)} multiply-adds` : "–"],
    [
      "speed",
      o.seconds
        ? `${giga(rate(2 * o.macs, o.seconds))} GFLOP/s, ${giga(rate(o.moved_bytes, o.seconds))} GB/s`
        : "–",
    ],
    ...(o.events || []).map((e) => [
      "event",
      `${e.name}, ${seconds(e.start)} to ${seconds(e.end)} after the start of the run`,
    ]),
    ["weights", bytes(o.weights_bytes)],
    ["in use", `${bytes(o.live_bytes)} of the arena, ${bytes(o.scratch_bytes)} scratch`],
    ["function", o.symbol],
  ];
  const nodes = nodesOf[number].map((node) =>
    make(
      "li",
      {},
      make("b", {}, node.op_type),
      ` ${node.name}`,
      node.reason ? make("div", { class: "reason" }, node.reason) : null,
    ),
  );
  panel.replaceChildren(
    make("h3", {}, o.name),
    make("dl", {}, ...pairs.flatMap(([k, v]) => [make("dt", {}, k), make("dd", {}, v)])),
    ...tensorList("Reads", o.reads, number),
    ...tensorList("Writes", o.writes, number),
    ...(nodes.length
      ? [make("h3", {}, "Nodes of the network in it"), make("ul", {}, ...nodes)]
      : []),
  );
}

function startGraph() {
  space.append(drawEdges(), verticesGroup);
  net.append(space);
  paint("kind");
  listenToPointers();
  net.addEventListener("keydown", pressed);
  at("in").addEventListener("click", () => zoom(1.3));
  at("out").addEventListener("click", () => zoom(1 / 1.3));
  at("fit").addEventListener("click", () => fitGraph(0.06));
  at("colour").addEventListener("change", (event) => paint(event.target.value));
  at("search").addEventListener("input", (event) => search(event.target.value));
  at("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextHit();
  });
  window.addEventListener("resize", show);
  let marked = null;
  watchers.push((number, how) => {
    if (marked !== null) {
      vertices[marked].element?.setAttribute("aria-selected", "false");
      edgesOf[marked].forEach((path) => path.classList.remove("lit"));
    }
    marked = number === null ? null : firstOperator + number;
    details(number);
    if (marked === null) return net.removeAttribute("aria-activedescendant");
    if (!vertices[marked].element) drawVertex(vertices[marked]);
    vertices[marked].element.setAttribute("aria-selected", "true");
    edgesOf[marked].forEach((path) => path.classList.add("lit"));
    net.setAttribute("aria-activedescendant", `v${marked}`);
    if (how.show) reveal(vertices[marked]);
  });
  details(null);
  fitGraph(0.85);
}
