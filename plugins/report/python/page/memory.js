// The arena over time: a row of addresses per pool, a box per tensor; live bytes below.

const LEFT = 78,
  RIGHT = 16,
  TOP = 20;
const steps = Math.max(1, operators.length);
const byName = new Map(operators.map((o, i) => [o.name, i]));

function makerNumber(row) {
  const name = row.buffer.replace(/_scratch$/, "");
  return makerOf.get(row.buffer) ?? makerOf.get(name) ?? byName.get(name.replace(/_\d+$/, ""));
}

function axis(chart, across, height) {
  const every = Math.max(1, Math.ceil(48 / across));
  for (let step = 0; step < steps; step += every) {
    const x = LEFT + (step + 0.5) * across;
    chart.append(draw("text", { x, y: height - 6, "text-anchor": "middle" }, String(step)));
  }
}

// A number left of a chart.
const scale = (y, text) => draw("text", { x: LEFT - 6, y, "text-anchor": "end" }, text);

function tensorBox(row, across, down, short) {
  const number = makerNumber(row),
    kind = number === undefined ? "other" : operators[number].kind;
  const first = Math.max(0, row.first),
    last = Math.min(steps - 1, row.last);
  const x = LEFT + first * across,
    y = TOP + row.offset * down;
  const width = Math.max(1.5, (last - first + 1) * across - 1),
    height = Math.max(1.5, row.size * down - 1);
  const box = draw(
    "rect",
    {
      class: "tensor",
      x,
      y,
      width,
      height,
      rx: Math.min(4, height / 3),
      style: `--c:${colourOf(kind)}`,
      onclick: () => {
        if (number !== undefined) select(number, { show: true });
      },
    },
    draw(
      "title",
      {},
      `${row.buffer}: ${bytes(row.size)} at ${count(row.offset)}, steps ${row.first} to ${row.last}`,
    ),
  );
  if (number !== undefined) (boxesOf[number] = boxesOf[number] || []).push(box);
  return [box, ...tensorLabel(row, { x, y, width, height }, number, short(row.buffer))];
}

// The tensor's name if it fits, horizontally or vertically; otherwise the operator's number.
const LETTER = 6.9;
function tensorLabel(row, { x, y, width, height }, number, name) {
  const down = height > width && width >= 14,
    room = Math.floor(((down ? height : width) - 10) / LETTER);
  const least = Math.min(name.length, 10);
  const label = room >= least ? shorten(name, room) : number === undefined ? "" : `#${number}`;
  const two = !down && height > 28 && room >= 10 ? bytes(row.size) : "";
  const long = Math.max(label.length, two.length) * LETTER + 6,
    left = down ? x + width / 2 - 7 : x;
  const place = down
    ? { left, right: left + 14, top: y, bottom: y + long }
    : { left, right: left + long, top: y, bottom: y + (two ? 26 : 13) };
  const fits = label && (down ? height : width) >= long && (down ? width : height) >= 13;
  if (!fits || labels.some((other) => overlap(place, other))) return [];
  labels.push(place);
  if (down) {
    const transform = `translate(${x + width / 2 - 4},${y + 5}) rotate(90)`;
    return [draw("text", { class: "name", transform }, label)];
  }
  const texts = [draw("text", { class: "name", x: x + 5, y: y + 12 }, label)];
  if (two) texts.push(draw("text", { class: "name", x: x + 5, y: y + 25 }, two));
  return texts;
}
let boxesOf = [],
  labels = [];

function poolChart(pool, across) {
  const rows = data.memory.tensors.filter((row) => row.pool === pool.name);
  const tall = Math.min(420, Math.max(90, rows.length * 22)),
    used = Math.max(1, pool.used_bytes);
  const down = tall / used,
    width = LEFT + steps * across + RIGHT,
    height = TOP + tall + 24;
  const chart = draw("svg", {
    width,
    height,
    role: "img",
    "aria-label":
      `${pool.name}: ${rows.length} tensors in ${bytes(pool.used_bytes)} over ${steps} steps; ` +
      "the table below has them all",
  });
  chart.append(
    draw("rect", { class: "frame", x: LEFT, y: TOP, width: steps * across, height: tall }),
  );
  for (let quarter = 0; quarter <= 4; quarter += 1) {
    const y = TOP + (tall * quarter) / 4 + 4;
    chart.append(scale(y, bytes(Math.round((used * quarter) / 4))));
  }
  labels = [];
  const short = withoutCommonStart(rows.map((row) => row.buffer));
  const parts = rows.map((row) => tensorBox(row, across, down, short));
  chart.append(...parts.map((part) => part[0]), ...parts.flatMap((part) => part.slice(1)));
  axis(chart, across, height);
  return chart;
}

// Live bytes at each step, with the peak and the lower bound of any memory plan.
function liveChart(across) {
  const live = operators.map((o) => o.live_bytes),
    most = Math.max(1, ...live);
  const bound = data.memory.lower_bound_bytes,
    top = Math.max(most, bound),
    tall = 90;
  const width = LEFT + steps * across + RIGHT,
    first = width < 560 ? TOP + 14 : TOP, // two texts side by side, or one below the other
    height = first + tall + 30;
  const y = (n) => first + tall * (1 - n / top),
    peak = live.indexOf(most);
  let path = `M${LEFT},${first + tall}`;
  live.forEach((n, i) => {
    path += `V${y(n)}H${LEFT + (i + 1) * across}`;
  });
  const chart = draw(
    "svg",
    {
      width,
      height,
      role: "img",
      "aria-label":
        `bytes alive at each step: at most ${bytes(most)}, at step ${peak}; ` +
        `no plan can do with less than ${bytes(bound)}`,
    },
    draw("path", { class: "live", d: `${path}V${first + tall}Z` }),
  );
  const x = LEFT + (peak + 0.5) * across,
    late = x > width * 0.6;
  chart.append(
    draw("line", { class: "bound", x1: LEFT, x2: width - RIGHT, y1: y(bound), y2: y(bound) }),
    draw(
      "text",
      {
        class: "bound-text",
        x: late ? LEFT + 4 : width - RIGHT - 4,
        y: first - 8,
        "text-anchor": late ? "start" : "end",
      },
      `least of any plan: ${bytes(bound)}`,
    ),
    draw("line", { class: "peak", x1: x, x2: x, y1: 4, y2: first + tall }),
    draw(
      "text",
      { class: "peak-text", x: x + (late ? -6 : 6), y: 12, "text-anchor": late ? "end" : "start" },
      `peak: step ${peak}, ${bytes(most)}`,
    ),
    scale(first + 8, bytes(top)),
    scale(first + tall, "0 B"),
  );
  axis(chart, across, height - 10);
  chart.append(draw("text", { x: LEFT, y: height - 2 }, "step (operator)"));
  return chart;
}

let stretch = 1;
function drawMemory() {
  const host = at("pools"),
    room = Math.max(320, host.clientWidth - 4);
  const across = ((room - LEFT - RIGHT) / steps) * stretch;
  boxesOf = [];
  host.replaceChildren();
  const pools = data.memory.pools.filter((pool) => pool.used_bytes > 0);
  if (!pools.length || !operators.length) {
    host.append(
      make("p", { class: "quiet" }, "The network needs no memory between its operators."),
    );
    return;
  }
  const button = (text, label, by) =>
    make(
      "button",
      {
        type: "button",
        "aria-label": label,
        onclick: () => {
          stretch = Math.min(64, Math.max(1, stretch * by));
          drawMemory();
        },
      },
      text,
    );
  host.append(
    make(
      "div",
      { class: "bar" },
      make(
        "span",
        { class: "quiet grow" },
        "Steps go to the right, addresses down; a box is a tensor " +
          "from its first to its last use, in the colour of what writes it.",
      ),
      make(
        "span",
        { class: "buttons", role: "group", "aria-label": "Width of a step" },
        button("−", "Narrower steps", 0.5),
        button("+", "Wider steps", 2),
      ),
    ),
  );
  host.append(make("div", { class: "legend" }, ...kindsLegend()));
  const charts = [];
  for (const pool of pools) {
    if (pools.length > 1) charts.push(make("h3", {}, `${pool.name}: ${bytes(pool.used_bytes)}`));
    charts.push(poolChart(pool, across));
  }
  host.append(
    make(
      "div",
      {
        class: "chart scroll",
        tabindex: "0",
        role: "region",
        "aria-label": "Pictures of the memory",
      },
      ...charts,
      liveChart(across),
    ),
    memoryTable(),
  );
}

function memoryTable() {
  const columns = [
    { name: "tensor", left: true, value: (row) => row.buffer },
    { name: "pool", left: true, value: (row) => row.pool },
    numbers("bytes", (row) => row.size, count),
    numbers("at", (row) => row.offset, count),
    { name: "from step", value: (row) => row.first },
    { name: "to step", value: (row) => row.last },
  ];
  const rows = data.memory.tensors;
  const place = make("div", {});
  const fold = make(
    "details",
    {
      ontoggle: () => {
        if (fold.open && !place.firstChild) table(place, "Tensors in memory", columns, rows, 2);
      },
    },
    make("summary", {}, `The ${count(rows.length)} tensors as a table`),
    place,
  );
  return fold;
}

function startMemory() {
  drawMemory();
  let lit = [];
  watchers.push((number) => {
    lit.forEach((box) => box.classList.remove("lit"));
    lit = (number !== null && boxesOf[number]) || [];
    lit.forEach((box) => box.classList.add("lit"));
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) {
      width = window.innerWidth;
      drawMemory();
    }
  });
}
