// The roofline: speed of operators by arithmetic intensity.

const AXIS = 60,
  GAP = 16,
  TALL = 290;

// Labels of a logarithmic axis: 1, 2 and 5 of each decade, or only the decades if there are many.
function ticks(low, high) {
  const steps = high - low > 2.5 ? [1] : [1, 2, 5];
  const found = [];
  for (let e = Math.floor(low); e <= high; e += 1) {
    found.push(...steps.map((m) => Number((m * 10 ** e).toPrecision(1))));
  }
  return found.filter((v) => Math.log10(v) >= low && Math.log10(v) <= high);
}

// Ranges of both axes (logarithms), which show all points and the ridge point.
function rooflineScales(points, flops, stream, room) {
  const low = Math.log10(Math.min(...points.map((p) => p.speed), flops / 30)) - 0.2,
    high = Math.log10(flops) + 0.3;
  const begin = Math.log10(Math.min(...points.map((p) => p.per), flops / stream / 4)) - 0.15,
    end = Math.log10(Math.max(...points.map((p) => p.per), (4 * flops) / stream)) + 0.15;
  return {
    low,
    high,
    begin,
    end,
    x: (v) => AXIS + ((Math.log10(v) - begin) / (end - begin)) * (room - AXIS - GAP),
    y: (v) => 16 + ((high - Math.log10(v)) / (high - low)) * (TALL - 62),
  };
}

function rooflineAxes({ low, high, begin, end, x, y }, room) {
  const bottom = y(10 ** low);
  const rows = ticks(low - 9, high - 9).flatMap((giga) => [
    draw("line", { class: "frame", x1: AXIS, x2: room - GAP, y1: y(giga * 1e9), y2: y(giga * 1e9) }),
    draw("text", { x: AXIS - 6, y: y(giga * 1e9) + 4, "text-anchor": "end" }, String(giga)),
  ]);
  const columns = ticks(begin, end).flatMap((v) => [
    draw("line", { class: "frame", x1: x(v), x2: x(v), y1: 16, y2: bottom }),
    draw("text", { x: x(v), y: bottom + 15, "text-anchor": "middle" }, String(v)),
  ]);
  const below =
    room < 560
      ? "operations for each byte"
      : "operations for each byte moved; a circle's area is its share of the time";
  return [
    ...rows,
    ...columns,
    draw("text", { x: 4, y: 12 }, "GFLOP/s"),
    draw("text", { x: room - GAP, y: TALL - 6, "text-anchor": "end" }, below),
  ];
}

const radius = (o) => 3 + (22 * Math.sqrt(share(o))) / 1.6;

// Places for a text under a sloping roof, from `begin` to `end` operations for each byte.
function placesUnder(speed, begin, end, { x, y }) {
  return [0.5, 0.3, 0.7, 0.1, 0.9].map((part) => {
    const per = begin * (end / begin) ** part;
    return { x: x(per) + 8, y: y(per * speed) + 14 };
  });
}

// A text at the first place inside of the chart where nothing else is; its box is then taken, too.
function rooflineLabel(text, places, taken, room) {
  const box = ({ x, y }) => ({ left: x, right: x + 6.5 * text.length, top: y - 12, bottom: y + 4 });
  const isFree = (place) => !taken.some((other) => overlap(other, box(place)));
  const inside = places.filter((place) => box(place).right <= room);
  const place = inside.find(isFree) || inside[0] || places[0];
  taken.push(box(place));
  return draw("text", { class: "over", ...place }, text);
}

function rooflinePoint({ o, i, speed, per }, { x, y }) {
  const moved = giga(rate(o.moved_bytes, o.seconds));
  return draw(
    "circle",
    {
      class: "point",
      cx: x(per),
      cy: y(speed),
      r: radius(o),
      style: `--c:${colourOf(o.kind)}`,
      onclick: () => select(i, { show: true }),
    },
    draw("title", {}, `${o.name}: ${giga(speed / 1e9)} GFLOP/s, ${moved} GB/s`),
  );
}

function roofline() {
  const points = operators
    .map((o, i) => ({ o, i, speed: (2 * o.macs) / o.seconds, per: (2 * o.macs) / o.moved_bytes }))
    .filter(({ o }) => o.seconds && o.macs && o.moved_bytes);
  if (!data.machine || points.length < 2) return;
  const room = Math.max(300, at("roofline").clientWidth - 4),
    stream = data.machine.bytes,
    cached = Math.max(stream, ...data.machine.caches.map((level) => level.bytes_per_second)),
    flops = Math.max(data.machine.flops, ...points.map((p) => p.speed));
  const scales = rooflineScales(points, flops, stream, room),
    { x, y } = scales;
  const best = `${giga(flops / 1e9)} GFLOP/s`,
    [inMemory, inCache] = [stream, cached].map((speed) => `${giga(speed / 1e9)} GB/s`);
  const label =
    `Speed of ${points.length} operators against the best of numpy and of these on this machine, ` +
    `${best}, ${inMemory} in memory and ${inCache} in a cache; the table below has the numbers`;
  const start = (speed) => Math.max(10 ** scales.begin, 10 ** scales.low / speed);
  const ridge = (speed) => Math.max(start(speed), flops / speed);
  const roof = (speed) =>
    `M${x(start(speed))},${y(Math.min(flops, start(speed) * speed))}` +
    `L${x(ridge(speed))},${y(flops)}H${room - GAP}`;
  const under = (speed) =>
    ridge(speed) > start(speed) ? placesUnder(speed, start(speed), ridge(speed), scales) : [];
  const right = room - GAP - 6.5 * `best seen: ${best}`.length,
    above = [6, 22].map((up) => ({ x: right, y: y(flops) - up }));
  const taken = points.map((p) => {
    const [across, down, r] = [x(p.per), y(p.speed), radius(p.o)];
    return { left: across - r, right: across + r, top: down - r, bottom: down + r };
  });
  const chart = draw(
    "svg",
    { width: room, height: TALL, role: "img", "aria-label": label },
    ...rooflineAxes(scales, room),
    draw("path", { class: "roof cache", d: roof(cached) }),
    draw("path", { class: "roof", d: roof(stream) }),
    ...points.map((point) => rooflinePoint(point, scales)),
    ...[
      [`best seen: ${best}`, above],
      [`copy in a cache: ${inCache}`, under(cached)],
      [`copy in memory: ${inMemory}`, under(stream)],
    ]
      .filter(([, places]) => places.length)
      .map(([text, places]) => rooflineLabel(text, places, taken, room)),
  );
  const place = { class: "chart scroll", tabindex: "0", role: "region", "aria-label": "Roofline" };
  at("roofline").append(make("div", { ...place, style: "margin-bottom:.8rem" }, chart));
}
