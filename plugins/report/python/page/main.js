// The page: theme, cards, and its parts in order.

function card(what, value, note) {
  return make(
    "div",
    { class: "card" },
    make("div", { class: "what" }, what),
    make("div", { class: "value" }, value),
    note ? make("div", { class: "note" }, note) : null,
  );
}

function cards() {
  const memory = data.memory,
    timing = data.timing;
  const over = memory.lower_bound_bytes ? memory.arena_bytes / memory.lower_bound_bytes - 1 : 0;
  const macs = sum(operators.map((o) => o.macs)),
    found = [];
  if (timing) {
    found.push(
      card(
        "one run, median",
        seconds(timing.median),
        `fastest ${seconds(timing.fastest)} of ${count(timing.runs)}, ` +
          `${data.machine.threads} thread${data.machine.threads > 1 ? "s" : ""}`,
      ),
    );
  }
  found.push(
    card(
      "work",
      work(macs),
      timing ? `multiply-adds, ${giga(rate(2 * macs, timing.median))} GFLOP/s` : "multiply-adds",
    ),
    card(
      "memory for tensors",
      memory.planned_in_runs ? "planned in each run" : bytes(memory.arena_bytes),
      memory.planned_in_runs
        ? "numbers of memory on this page are estimates"
        : over > 0.0005 ? `${percent(over)} over the least of any plan` : "no plan can do with less",
    ),
    card("weights", bytes(memory.weights_bytes), "read-only, shared"),
  );
  const board = data.footprint && data.footprint.measured ? data.footprint : null;
  if (board) {
    const code = sum(Object.values(board.run_code_bytes)) + board.run_constant_bytes;
    const depths = Object.values(board.stack).map((depth) => depth.bytes);
    found.push(
      card("code in flash", bytes(code), `by ${board.compiler}`),
      card(
        "stack",
        depths.includes(null) ? "no bound" : bytes(Math.max(0, ...depths)),
        "deepest path",
      ),
    );
  }
  found.push(card("operators", count(operators.length), `of ${count(data.nodes.length)} nodes`));
  at("cards").append(...found);
}

function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paintTheme = (theme) => {
    document.documentElement.dataset.theme = theme;
    show();
  };
  paintTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => paintTheme(dark.matches ? "dark" : "light"));
  at("theme").addEventListener("click", () => {
    paintTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  });
  const ends = (tensors) =>
    tensors
      .map((t) => `${t.name} ${t.dtype} ${shape(t.shape)}`)
      .slice(0, 4)
      .join(", ") + (tensors.length > 4 ? ", …" : "");
  at("subtitle").textContent =
    `${ends(data.inputs)} → ${ends(data.outputs)} · target ${data.target}, executor ${data.executor}`;
  cards();
  at("main").classList.toggle("narrow-graph", extent.right - extent.left <= 2 * WIDTH);
  startGraph();
  startMemory();
  operatorTable();
  nodeTable();
  boardTables();
  for (const section of document.querySelectorAll("main section:not([hidden])")) {
    at("nav").append(
      make("a", { href: `#${section.id}` }, section.querySelector("h2").textContent),
    );
  }
  watchers.push((number) => {
    for (const row of document.querySelectorAll("tr.lit")) row.classList.remove("lit");
    for (const row of document.querySelectorAll(`tr[data-operator="${number}"]`))
      row.classList.add("lit");
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|SELECT/.test(document.activeElement.tagName)) {
      event.preventDefault();
      at("search").focus();
    }
  });
  performance.mark("ready");
  document.documentElement.dataset.ready = "yes";
}
start();
