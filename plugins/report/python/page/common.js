// Shared by all parts of the page: the data, number formats, elements, the selection.

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const data = read("data"),
  layout = read("layout");
const operators = data.operators,
  firstOperator = data.inputs.length;
const at = (id) => document.getElementById(id);
const KINDS = [
  "convolution",
  "product",
  "elementwise",
  "movement",
  "reduction",
  "pooling",
  "normalisation",
  "recurrent",
  "quantisation",
  "device",
  "other",
];

const sum = (values) => values.reduce((a, b) => a + b, 0);
const totalSeconds = sum(operators.map((o) => o.seconds || 0));
const share = (o) => (totalSeconds && o.seconds ? o.seconds / totalSeconds : 0);

function scaled(value, units, step) {
  let i = 0;
  while (i < units.length - 1 && Math.abs(value) >= step) {
    value /= step;
    i += 1;
  }
  const digits = value >= 100 || (i === 0 && Number.isInteger(value)) ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[i]}`;
}
const bytes = (n) => (n == null ? "–" : scaled(n, ["B", "KiB", "MiB", "GiB"], 1024));
const count = (n) => (n == null ? "–" : n.toLocaleString("en"));
const percent = (x) => `${(100 * x).toFixed(x < 0.1 ? 1 : 0)} %`;
const seconds = (s) => (s == null ? "–" : scaled(s * 1e9, ["ns", "µs", "ms", "s"], 1000));
const shape = (dims) => dims.join(" × ") || "scalar";
const work = (n) => scaled(n, ["", "K", "M", "G", "T"], 1000);
const rate = (amount, time) => (time && amount ? amount / time / 1e9 : null);
const giga = (x) => (x == null ? "–" : x.toFixed(x < 10 ? 2 : x < 100 ? 1 : 0));
const colourOf = (kind) => `var(--${kind})`;
const overlap = (a, b) =>
  a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

// Legend of the colours of the kinds that the network has.
function kindsLegend() {
  const seen = new Set(operators.map((o) => o.kind));
  return KINDS.filter((kind) => seen.has(kind)).map((kind) =>
    make("span", { style: `--c:${colourOf(kind)}` }, kind),
  );
}

function shorten(text, letters) {
  if (text.length <= letters) return text;
  if (letters < 4) return "";
  const tail = Math.ceil((letters - 1) * 0.55);
  return `${text.slice(0, letters - 1 - tail)}…${text.slice(text.length - tail)}`;
}

// Return a function that removes the common prefix of names, up to its last separator.
function withoutCommonStart(names) {
  let start = names[0] || "";
  for (const name of names) {
    while (!name.startsWith(start)) start = start.slice(0, -1);
  }
  const cut = Math.max(start.lastIndexOf("_"), start.lastIndexOf("/")) + 1;
  return names.length > 1 ? (name) => name.slice(cut) || name : (name) => name;
}

const SVG = "http://www.w3.org/2000/svg";
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") element.style.cssText = value;
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  for (const child of children) if (child !== null) element.append(child);
  return element;
}
const make = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// Nodes of the network by operator, and the texts for their types.
const nodesOf = operators.map(() => []);
for (const node of data.nodes) for (const i of node.operators) nodesOf[i].push(node);
const typesOf = operators.map((o, i) => {
  const types = [...new Set(nodesOf[i].map((node) => node.op_type))];
  return types.length ? types.join(" · ") : o.fused.join(" · ");
});

// The selected operator is the same in all parts of the page.
const watchers = [];
let selected = null;
function select(number, how = {}) {
  selected = number;
  for (const watcher of watchers) watcher(number, how);
}
const nameButton = (number) =>
  make(
    "button",
    { type: "button", class: "link", onclick: () => select(number, { show: true }) },
    operators[number].name,
  );
