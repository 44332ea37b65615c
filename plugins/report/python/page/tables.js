// Tables with sorting and filtering.

const SHOWN = 100;

// columns: name, value(row) for sorting, show(row) returns text or element; left, wide for texts;
// split for cells of several words, which may break on a small screen.
function table(host, caption, columns, rows, sortedBy, rowOf) {
  let order = { column: sortedBy, down: true },
    all = false,
    words = [];
  const heads = columns.map((column, i) =>
    make(
      "th",
      { scope: "col", class: column.left ? "left" : null },
      make(
        "button",
        {
          type: "button",
          onclick: () => {
            order = { column: i, down: order.column === i ? !order.down : !column.left };
            refresh();
          },
        },
        column.name,
      ),
    ),
  );
  const body = make("tbody", {}),
    more = make("button", {
      type: "button",
      class: "more",
      onclick: () => {
        all = true;
        refresh();
      },
    });
  const cellText = (row) =>
    columns
      .map((c) => String(c.value(row) ?? ""))
      .join(" ")
      .toLowerCase();
  function refresh() {
    let shown = rows.filter((row) => words.every((word) => cellText(row).includes(word)));
    if (order.column !== null) {
      const value = columns[order.column].value,
        sign = order.down ? -1 : 1;
      const rank = (row) => value(row) ?? -Infinity;
      shown = [...shown].sort(
        (a, b) => sign * (rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0),
      );
    }
    heads.forEach((head, i) =>
      head.setAttribute(
        "aria-sort",
        order.column !== i ? "none" : order.down ? "descending" : "ascending",
      ),
    );
    more.hidden = all || shown.length <= SHOWN;
    more.textContent = `Show all ${count(shown.length)}`;
    body.replaceChildren(
      ...(all ? shown : shown.slice(0, SHOWN)).map((row) =>
        make(
          "tr",
          { "data-operator": rowOf ? rowOf(row) : null },
          ...columns.map((c) =>
            make(
              "td",
              {
                class: ["left", "wide", "split"].filter((name) => c[name]).join(" ") || null,
                title: c.left && !c.wide ? String(c.value(row) ?? "") : null,
              },
              cell(c, row),
            ),
          ),
        ),
      ),
    );
  }
  const filter = make("input", {
    type: "search",
    autocomplete: "off",
    oninput: (event) => {
      words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      refresh();
    },
  });
  if (rows.length > 12) {
    host.append(make("div", { class: "bar" }, make("label", { class: "grow" }, "Filter ", filter)));
  }
  host.append(
    make(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": `${caption}, table` },
      make("table", { "aria-label": caption }, make("thead", {}, make("tr", {}, ...heads)), body),
    ),
    more,
  );
  refresh();
}

function cell(column, row) {
  if (column.show) return column.show(row);
  const text = String(column.value(row) ?? "–");
  return column.left && !column.wide ? make("div", { class: "text" }, text) : text;
}

function meter(part, kind) {
  const bar = make("i", { style: `width:${(100 * part).toFixed(1)}%;--c:${colourOf(kind)}` });
  return make(
    "span",
    {},
    percent(part),
    make("span", { class: "meter", "aria-hidden": "true" }, bar),
  );
}

// A column of numbers, which a function writes.
const numbers = (name, value, write) => ({ name, value, show: (row) => write(value(row)) });

// Columns of time and speed, for rows whose operator's numbers are `of(row)`.
function speedColumns(of) {
  return [
    numbers("time", (r) => of(r).seconds, seconds),
    { name: "share", value: (r) => share(of(r)), show: (r) => meter(share(of(r)), of(r).kind) },
    numbers("GFLOP/s", (r) => rate(2 * of(r).macs, of(r).seconds), giga),
    numbers("GB/s", (r) => rate(of(r).moved_bytes, of(r).seconds), giga),
    {
      name: "of roofline",
      split: true,
      value: (r) => of(r).roofline,
      show: (r) => (of(r).roofline ? `${percent(of(r).roofline)} (${of(r).bound})` : "–"),
    },
  ];
}

function operatorTable() {
  const rows = operators.map((o, i) => ({ o, i }));
  const timed = totalSeconds > 0;
  const columns = [
    { name: "#", value: ({ i }) => i },
    { name: "operator", left: true, value: ({ o }) => o.name, show: ({ i }) => nameButton(i) },
    {
      name: "kind",
      left: true,
      value: ({ o }) => o.kind,
      show: ({ o }) => make("span", { class: "dot", style: `--c:${colourOf(o.kind)}` }, o.kind),
    },
    { name: "nodes", left: true, value: ({ i }) => typesOf[i] },
    { name: "result", left: true, value: ({ o }) => (o.writes[0] ? shape(o.writes[0].shape) : "") },
    numbers("multiply-adds", ({ o }) => o.macs, (macs) => (macs ? work(macs) : "–")),
    numbers("moved", ({ o }) => o.moved_bytes, bytes),
    numbers("weights", ({ o }) => o.weights_bytes, bytes),
  ];
  if (timed) columns.splice(2, 0, ...speedColumns(({ o }) => o));
  if (devices.length > 1) columns.push({ name: "device", left: true, value: ({ o }) => o.device });
  table(at("operators"), "Operators", columns, rows, timed ? 2 : null, ({ i }) => i);
}

// Sum up a node's numbers over its operators, which may also compute other nodes.
function workOf(node) {
  const parts = node.operators.map((i) => operators[i]);
  const total = (key) => (parts.length ? sum(parts.map((o) => o[key] || 0)) : undefined);
  const longest = parts.reduce((a, b) => ((b.seconds || 0) > (a.seconds || 0) ? b : a), {});
  return {
    seconds: total("seconds"),
    macs: total("macs"),
    moved_bytes: total("moved_bytes"),
    roofline:
      sum(parts.map((o) => (o.roofline || 0) * (o.seconds || 0))) / total("seconds") || undefined,
    bound: longest.bound,
    kind: longest.kind || "other",
  };
}

function nodeTable() {
  const reasons = data.nodes.some((node) => node.reason && node.device !== "none");
  const columns = [
    { name: "node", left: true, value: (n) => n.name },
    { name: "type", left: true, value: (n) => n.op_type },
    { name: "device", left: true, value: (n) => (n.device === "none" ? "no code" : n.device) },
  ];
  const sums = new Map(data.nodes.map((n) => [n, workOf(n)]));
  const others = (n) => sum(n.operators.map((i) => nodesOf[i].length - 1));
  const timed = totalSeconds > 0;
  if (timed)
    columns.push(
      ...speedColumns((n) => sums.get(n)),
      numbers("in one with", others, (n) => (n ? `${count(n)} more` : "–")),
    );
  columns.push({
    name: "operator",
    left: true,
    value: (n) => n.operators.map((i) => operators[i].name).join(", "),
    show: (n) =>
      make(
        "span",
        {},
        ...n.operators.slice(0, 3).flatMap((i, k) => [k ? ", " : "", nameButton(i)]),
      ),
  });
  if (reasons)
    columns.push({
      name: "why not on a device",
      left: true,
      wide: true,
      value: (n) => (n.device === "none" ? "" : n.reason),
    });
  table(at("node-table"), "Nodes of the network", columns, data.nodes, timed ? 3 : null);
}

function boardTables() {
  const found = data.footprint;
  if (!found) return;
  at("board").hidden = false;
  if (!found.measured) {
    at("board-tables").append(make("p", {}, `Code and stack are not measured: ${found.reason}`));
    return;
  }
  for (const [name, depth] of Object.entries(found.stack)) {
    at("board-tables").append(
      make(
        "p",
        {},
        `Deepest stack of ${name}: ` +
          `${depth.bytes == null ? "no bound" : bytes(depth.bytes)}, ${depth.path.join(" → ")}`,
      ),
    );
  }
  table(
    at("board-tables"),
    "Functions in flash",
    [
      { name: "function of C", left: true, value: (f) => f.name },
      numbers("code", (f) => f.code_bytes, count),
      numbers("frame", (f) => f.frame_bytes, count),
      numbers(
        "stack",
        (f) => f.stack_bytes ?? Infinity,
        (n) => (n === Infinity ? "no bound" : count(n)),
      ),
    ],
    found.functions,
    1,
  );
}
